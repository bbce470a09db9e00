package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// filter is what kube-scheduler's PodTopologySpread and InterPodAffinity both do.
type filter interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// plugin is kube-scheduler's PodTopologySpread and InterPodAffinity on a snapshot of its
// cache, with the features and the parallelism that kube-scheduler has by default.
type plugin struct {
	*podtopologyspread.PodTopologySpread
	affinity     filter
	parallelizer fwk.Parallelizer
	// In the order of the cluster's nodes.
	nodes []fwk.NodeInfo
}

func newPlugin(ctx context.Context, held *cluster) (*plugin, error) {
	metrics.Register()
	snapshot := cache.NewSnapshot(held.pods, held.nodes)
	// Nobody asks for namespaces by their labels.
	namespaces := informers.NewSharedInformerFactory(nil, 0)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(namespaces))
	if err != nil {
		return nil, err
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	var args runtime.Object = &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}
	spread, err := podtopologyspread.New(ctx, args, handle, features)
	if err != nil {
		return nil, err
	}
	affinity, err := interpodaffinity.New(ctx, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}, handle, features)
	if err != nil {
		return nil, err
	}
	p := &plugin{
		PodTopologySpread: spread.(*podtopologyspread.PodTopologySpread),
		affinity:          affinity.(filter),
		parallelizer:      handle.Parallelizer(),
		nodes:             make([]fwk.NodeInfo, len(held.nodes)),
	}
	for i, node := range held.nodes {
		if p.nodes[i], err = snapshot.Get(node.Name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// decide decides about one pod as a scheduling cycle does, with all nodes: PreFilter
// and Filter, or PreScore, Score and NormalizeScore. The CPU time is that of
// counting, in PreFilter or PreScore.
func (p *plugin) decide(ctx context.Context, pod *corev1.Pod, asked question) (decision, time.Duration, error) {
	switch {
	case asked.isOfAffinity:
		return p.filter(ctx, p.affinity, pod)
	case asked.isHard:
		return p.filter(ctx, p.PodTopologySpread, pod)
	}
	return p.score(ctx, pod)
}

func (p *plugin) filter(ctx context.Context, by filter, pod *corev1.Pod) (decision, time.Duration, error) {
	state := framework.NewCycleState()
	before := ownCPU()
	_, status := by.PreFilter(ctx, state, pod, p.nodes)
	counting := ownCPU() - before
	// What is skipped accepts all nodes.
	isSkipped := status.IsSkip()
	if !status.IsSuccess() && !isSkipped {
		return nil, 0, fmt.Errorf("PreFilter: %w", status.AsError())
	}
	feasible := make(decision, len(p.nodes))
	p.parallelizer.Until(ctx, len(p.nodes), func(i int) {
		if isSkipped || by.Filter(ctx, state, pod, p.nodes[i]).IsSuccess() {
			feasible[i] = 1
		}
	}, by.Name())
	return feasible, counting, nil
}

func (p *plugin) score(ctx context.Context, pod *corev1.Pod) (decision, time.Duration, error) {
	state := framework.NewCycleState()
	before := ownCPU()
	status := p.PreScore(ctx, state, pod, p.nodes)
	counting := ownCPU() - before
	if !status.IsSuccess() {
		return nil, 0, fmt.Errorf("PreScore: %w", status.AsError())
	}
	scores := make(fwk.NodeScoreList, len(p.nodes))
	statuses := make([]*fwk.Status, len(p.nodes))
	p.parallelizer.Until(ctx, len(p.nodes), func(i int) {
		scores[i].Name = p.nodes[i].Node().Name
		scores[i].Score, statuses[i] = p.Score(ctx, state, pod, p.nodes[i])
	}, p.Name())
	for _, status := range append(statuses, p.NormalizeScore(ctx, state, pod, scores)) {
		if !status.IsSuccess() {
			return nil, 0, fmt.Errorf("Score: %w", status.AsError())
		}
	}
	normalized := make(decision, len(scores))
	for i, score := range scores {
		normalized[i] = score.Score
	}
	return normalized, counting, nil
}
