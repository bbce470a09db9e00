// Package spread has the plugin EvenkeelSpread of kube-scheduler, which decides as PodTopologySpread does and
// asks Evenkeel for it.
package spread

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// Name of the plugin in profiles.
const Name = "EvenkeelSpread"

const (
	reasonSkew         = podtopologyspread.ErrReasonConstraintsNotMatch
	reasonMissingLabel = podtopologyspread.ErrReasonNodeLabelNotMatch
	reasonUnknownNode  = "node(s) that Evenkeel does not know yet"
)

// Plugin asks Evenkeel where pods may and should run so that they are spread evenly.
type Plugin struct {
	args *EvenkeelSpreadArgs
	link *link
	// tree is PodTopologySpread. It says what events may help a pod, and decides where pods are imagined and
	// where Evenkeel does not.
	tree    *podtopologyspread.PodTopologySpread
	factory informers.SharedInformerFactory
	seen    *sightings
}

var (
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PreScorePlugin    = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PostBindPlugin    = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// New makes the plugin for a profile.
func New(ctx context.Context, configured runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, err := readArgs(configured)
	if err != nil {
		return nil, err
	}
	upstream := &config.PodTopologySpreadArgs{
		DefaultConstraints: args.DefaultConstraints, DefaultingType: args.DefaultingType,
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	tree, err := podtopologyspread.New(ctx, upstream, handle, features)
	if err != nil {
		return nil, err
	}
	factory := handle.SharedInformerFactory()
	seen, err := watch(factory, args.DefaultingType == config.SystemDefaulting)
	if err != nil {
		return nil, err
	}
	link, err := newLink(args, factory.Core().V1().Pods().Lister(), seen)
	if err != nil {
		return nil, err
	}
	register()
	context.AfterFunc(ctx, link.close)
	return &Plugin{
		args: args, link: link, tree: tree.(*podtopologyspread.PodTopologySpread), factory: factory, seen: seen,
	}, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// constraints returns the constraints that a pod is asked about: its own, or those of a list of defaults with
// the selector that PodTopologySpread deduces. Kubernetes' own defaults Evenkeel applies itself.
func (p *Plugin) constraints(pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || len(p.args.DefaultConstraints) == 0 {
		return pod.Spec.TopologySpreadConstraints
	}
	core, apps := p.factory.Core().V1(), p.factory.Apps().V1()
	selector := helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(),
		apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
	if selector.Empty() {
		return nil
	}
	constraints := slices.Clone(p.args.DefaultConstraints)
	for number := range constraints {
		constraints[number].LabelSelector = labelSelector(selector)
	}
	return constraints
}

// labelSelector returns a selector of labels as an object.
func labelSelector(selector labels.Selector) *metav1.LabelSelector {
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
		selection.In: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	object := &metav1.LabelSelector{}
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		object.MatchExpressions = append(object.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: requirement.Key(), Operator: operators[requirement.Operator()],
			Values: requirement.ValuesUnsorted(),
		})
	}
	return object
}

func has(constraints []corev1.TopologySpreadConstraint, action corev1.UnsatisfiableConstraintAction) bool {
	return slices.ContainsFunc(constraints, func(constraint corev1.TopologySpreadConstraint) bool {
		return constraint.WhenUnsatisfiable == action
	})
}

// inTree returns whether PodTopologySpread decides about a pod because of an error, and counts that. What the API
// server has admitted it decides about whatever is wrong with it.
func (p *Plugin) inTree(ctx context.Context, pod *corev1.Pod, err error) bool {
	switch {
	case errors.Is(err, errInvalid):
		klog.FromContext(ctx).Error(err, "PodTopologySpread decides", "pod", klog.KObj(pod))
		inTreeDecisions.WithLabelValues("invalid").Inc()
		return true
	case errors.Is(err, errUnavailable) && p.args.OnUnavailable == InTree:
		inTreeDecisions.WithLabelValues("unavailable").Inc()
		return true
	}
	return false
}

// PreFilter asks which nodes a pod with hard constraints may run on.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	constraints := p.constraints(pod)
	if !has(constraints, corev1.DoNotSchedule) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	asked, err := newFilterState(ctx, p.link, pod, constraints)
	// The scheduler cancels a search that has found enough, but counts are made whole.
	whole := context.WithoutCancel(ctx)
	counts := sync.OnceValues(func() (*treeState, *fwk.Status) {
		tree := &treeState{CycleState: framework.NewCycleState()}
		_, status := p.tree.PreFilter(whole, tree, pod, nodes)
		return tree, status
	})
	switch {
	case p.inTree(ctx, pod, err):
		tree, status := counts()
		if !status.IsSuccess() {
			return nil, status
		}
		asked = &filterState{tree: tree}
	case err != nil:
		return nil, fwk.AsStatus(err)
	default:
		asked.counts = counts
	}
	state.Write(filterKey, asked)
	return nil, nil
}

// PreFilterExtensions returns the plugin, which imagines pods added and removed.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod has later calls of Filter see a pod on a node.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	tree, status := imagine(state, added.GetPod())
	if tree == nil {
		return status
	}
	return p.tree.AddPod(ctx, tree, pod, added, node)
}

// RemovePod has later calls of Filter not see a pod on its node.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	tree, status := imagine(state, removed.GetPod())
	if tree == nil {
		return status
	}
	return p.tree.RemovePod(ctx, tree, pod, removed, node)
}

// Filter reads the bit of a node. Where pods were imagined, PodTopologySpread decides.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	asked, status := read[*filterState](state, filterKey)
	switch {
	case asked == nil:
		return status
	case asked.tree != nil:
		return p.tree.Filter(ctx, asked.tree, pod, node)
	}
	return asked.passes(node.Node())
}

// PreScore asks for the scores of the nodes that passed, if the pod has soft constraints.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) *fwk.Status {
	constraints := p.constraints(pod)
	isSystem := len(constraints) == 0 && p.args.DefaultingType == config.SystemDefaulting
	if !isSystem && !has(constraints, corev1.ScheduleAnyway) {
		return fwk.NewStatus(fwk.Skip)
	}
	scored, isSkipped, err := p.score(ctx, pod, constraints, nodes)
	switch {
	case p.inTree(ctx, pod, err):
		state.Write(scoreKey, &scoreState{inTree: true})
		return p.tree.PreScore(ctx, state, pod, nodes)
	case err != nil:
		return fwk.AsStatus(err)
	case isSkipped:
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoreKey, &scoreState{scores: scored})
	return nil
}

// score returns the scores by node, or that there is nothing to score by.
func (p *Plugin) score(ctx context.Context, pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint,
	nodes []fwk.NodeInfo) (map[string]int64, bool, error) {
	asked, err := question(pod, constraints)
	if err != nil {
		return nil, false, err
	}
	few, names := int32(1), make([]string, len(nodes))
	for number, node := range nodes {
		names[number] = node.Node().Name
	}
	var answer *evenkeelv1.ScoreResponse
	err = p.link.ask(ctx, func(ctx context.Context, state told) error {
		answer, err = state.decider.Score(ctx, &evenkeelv1.ScoreRequest{
			Snapshot: p.args.Snapshot, Pod: asked, Candidates: &evenkeelv1.NodeNames{Names: names},
			NodeChecks: evenkeelv1.NodeChecks_NODE_CHECKS_SPREAD_ONLY, View: evenkeelv1.View_VIEW_BITMAP,
			MaxDomains: &few, MinRevision: state.revision, Epoch: state.epoch,
			MinResourceVersions: p.seen.versions(len(constraints) == 0),
		}).Wait()
		if err != nil {
			return err
		}
		if len(constraints) == 0 && answer.GetDefaults() != evenkeelv1.DefaultsKind_DEFAULTS_KIND_SYSTEM {
			return errors.New("the snapshot has other default constraints than the profile")
		}
		return nil
	})
	if err != nil || answer.GetSkipped() {
		return nil, true, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(answer.GetUnknownCandidates(), name)
	})
	scores := make(map[string]int64, len(names))
	for number, score := range answer.GetPackedScores() {
		scores[names[number]] = int64(score)
	}
	return scores, false, nil
}

// Score returns the score of a node, from 0 to 100.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	node fwk.NodeInfo) (int64, *fwk.Status) {
	scored, status := read[*scoreState](state, scoreKey)
	switch {
	case scored == nil:
		return 0, status
	case scored.inTree:
		return p.tree.Score(ctx, state, pod, node)
	}
	return scored.scores[node.Node().Name], nil
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore leaves Evenkeel's scores as they are.
func (p *Plugin) NormalizeScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	scored, status := read[*scoreState](state, scoreKey)
	if scored != nil && scored.inTree {
		return p.tree.NormalizeScore(ctx, state, pod, scores)
	}
	return status
}

// Reserve has the pod count on its node. It does not fail: what Evenkeel has not heard it hears before it
// answers the next question.
func (p *Plugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	p.link.reserve(context.WithoutCancel(ctx), pod, node)
	return nil
}

// Unreserve has the pod not count.
func (p *Plugin) Unreserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.link.release(context.WithoutCancel(ctx), pod.UID)
}

// PostBind forgets the pod when the feed has brought it.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.link.bound(pod.UID)
}

// EventsToRegister returns the events that may help a pod, with PodTopologySpread's hints. A pod that a hint queues
// is decided about with its event.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	events, err := p.tree.EventsToRegister(ctx)
	for number := range events {
		hint := events[number].QueueingHintFn
		events[number].QueueingHintFn = func(logger klog.Logger, pod *corev1.Pod, old, new any) (fwk.QueueingHint, error) {
			p.seen.queued(old, new)
			return hint(logger, pod, old, new)
		}
	}
	return events, err
}

// SignPod signs the pods that PodTopologySpread signs.
func (p *Plugin) SignPod(ctx context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return p.tree.SignPod(ctx, pod)
}

// read returns what a step before has written.
func read[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (T, *fwk.Status) {
	data, err := state.Read(key)
	if err != nil {
		var none T
		return none, fwk.AsStatus(err)
	}
	return data.(T), nil
}
