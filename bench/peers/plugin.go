package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// plugin is kube-scheduler's PodTopologySpread on a snapshot of its cache, with
// the features and the parallelism that kube-scheduler has by default.
type plugin struct {
	*podtopologyspread.PodTopologySpread
	parallelizer fwk.Parallelizer
	// In the order of the cluster's nodes.
	nodes []fwk.NodeInfo
}

func newPlugin(ctx context.Context, held *cluster) (*plugin, error) {
	metrics.Register()
	snapshot := cache.NewSnapshot(held.pods, held.nodes)
	handle, err := runtime.NewFramework(ctx, nil, nil, runtime.WithSnapshotSharedLister(snapshot))
	if err != nil {
		return nil, err
	}
	made, err := podtopologyspread.New(ctx, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting},
		handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	p := &plugin{
		PodTopologySpread: made.(*podtopologyspread.PodTopologySpread),
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
func (p *plugin) decide(ctx context.Context, pod *corev1.Pod, isHard bool) (decision, time.Duration, error) {
	if isHard {
		return p.filter(ctx, pod)
	}
	return p.score(ctx, pod)
}

func (p *plugin) filter(ctx context.Context, pod *corev1.Pod) (decision, time.Duration, error) {
	state := framework.NewCycleState()
	before := ownCPU()
	_, status := p.PreFilter(ctx, state, pod, p.nodes)
	counting := ownCPU() - before
	if !status.IsSuccess() {
		return nil, 0, fmt.Errorf("PreFilter: %w", status.AsError())
	}
	feasible := make(decision, len(p.nodes))
	p.parallelizer.Until(ctx, len(p.nodes), func(i int) {
		if p.Filter(ctx, state, pod, p.nodes[i]).IsSuccess() {
			feasible[i] = 1
		}
	}, p.Name())
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
