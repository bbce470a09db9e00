package spread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

const (
	filterKey fwk.StateKey = "PreFilter" + Name
	scoreKey  fwk.StateKey = "PreScore" + Name
)

// filterState is what PreFilter asked about a pod, and what is imagined since.
type filterState struct {
	link *link
	// pod as it is asked about, the keys of its hard constraints, and what they select at most.
	pod       *evenkeelv1.Pod
	namespace string
	keys      []string
	selectors []labels.Selector
	// The nodes that pass, by the bits of an order.
	order    *nodeOrder
	feasible []byte
	// verdicts asks once for the refusals of all nodes.
	verdicts func() (map[string]*evenkeelv1.NodeVerdict, error)
	// counts makes PodTopologySpread's state of this cycle, once.
	counts func() (*treeState, *fwk.Status)
	// tree is PodTopologySpread's state, which AddPod and RemovePod change. It decides if it is there: pods were
	// imagined, or Evenkeel was not asked.
	tree *treeState
}

// Clone copies what AddPod and RemovePod change.
func (s *filterState) Clone() fwk.StateData {
	copied := *s
	if s.tree != nil {
		copied.tree = s.tree.copied()
	}
	return &copied
}

// treeState has what PodTopologySpread writes about a pod before Filter, and nothing else of a cycle.
type treeState struct {
	fwk.CycleState
	written fwk.StateData
}

// Read returns what was written.
func (t *treeState) Read(fwk.StateKey) (fwk.StateData, error) { return t.written, nil }

// Write replaces what was written.
func (t *treeState) Write(_ fwk.StateKey, data fwk.StateData) { t.written = data }

// copied returns a state that changes apart.
func (t *treeState) copied() *treeState { return &treeState{t.CycleState, t.written.Clone()} }

// scoreState has the scores of the nodes that were asked about.
type scoreState struct {
	inTree bool
	scores map[string]int64
}

// Clone shares what does not change.
func (s *scoreState) Clone() fwk.StateData { return s }

// question returns what of a pod its spread constraints depend on, so that little is sent. Its constraints
// are its own or the given ones.
func question(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint) (*evenkeelv1.Pod, error) {
	asked := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels,
			OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{
			NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations,
			TopologySpreadConstraints: constraints, Priority: pod.Spec.Priority,
		},
	}
	if pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
		asked.Spec.Affinity = &corev1.Affinity{NodeAffinity: pod.Spec.Affinity.NodeAffinity}
	}
	converted, err := evenkeel.Convert(asked, &evenkeelv1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return converted, nil
}

// newFilterState asks which nodes pass.
func newFilterState(ctx context.Context, l *link, pod *corev1.Pod,
	constraints []corev1.TopologySpreadConstraint) (*filterState, error) {
	asked, err := question(pod, constraints)
	if err != nil {
		return nil, err
	}
	s := &filterState{link: l, pod: asked, namespace: pod.Namespace}
	for _, constraint := range constraints {
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
			selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errInvalid, err)
			}
			s.keys = append(s.keys, constraint.TopologyKey)
			s.selectors = append(s.selectors, selector)
		}
	}
	err = l.ask(ctx, func(ctx context.Context, state told) error {
		for range attempts {
			answer, err := s.filter(ctx, state, evenkeelv1.View_VIEW_BITMAP)
			if err != nil {
				return err
			}
			s.order, err = l.nodes(ctx, answer.GetEpoch(), answer.GetRevision(), answer.GetNodeOrderRevision())
			if s.order != nil || err != nil {
				s.feasible = answer.GetFeasibleBitmap()
				return err
			}
		}
		return errors.New("nodes change faster than they are listed")
	})
	s.verdicts = sync.OnceValues(func() (map[string]*evenkeelv1.NodeVerdict, error) { return s.refusals(ctx) })
	return s, err
}

// filter asks one question about the pod.
func (s *filterState) filter(ctx context.Context, state told, view evenkeelv1.View) (*evenkeelv1.FilterResponse, error) {
	few := int32(1)
	return state.decider.Filter(ctx, &evenkeelv1.FilterRequest{
		Snapshot: s.link.args.Snapshot, Pod: s.pod, MaxDomains: &few, View: view,
		NodeChecks:  evenkeelv1.NodeChecks_NODE_CHECKS_SPREAD_ONLY,
		MinRevision: state.revision, Epoch: state.epoch, MinResourceVersions: s.link.seen.versions(false),
	}).Wait()
}

// refusals asks for the nodes that do not pass.
func (s *filterState) refusals(ctx context.Context) (map[string]*evenkeelv1.NodeVerdict, error) {
	refused := make(map[string]*evenkeelv1.NodeVerdict)
	err := s.link.ask(ctx, func(ctx context.Context, state told) error {
		answer, err := s.filter(ctx, state, evenkeelv1.View_VIEW_FULL)
		for _, verdict := range answer.GetInfeasible() {
			refused[verdict.GetNode()] = verdict
		}
		return err
	})
	return refused, err
}

// passes returns the verdict about one node.
func (s *filterState) passes(node *corev1.Node) *fwk.Status {
	bit, known := s.order.index[node.Name]
	switch {
	case !known:
		return fwk.NewStatus(fwk.Unschedulable, reasonUnknownNode)
	case bit/8 < len(s.feasible) && s.feasible[bit/8]>>(bit%8)&1 == 1:
		return nil
	}
	lacks := func(key string) bool { _, has := node.Labels[key]; return !has }
	switch slices.IndexFunc(s.keys, lacks) {
	case -1:
		return fwk.NewStatus(fwk.Unschedulable, reasonSkew)
	case 0:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonMissingLabel)
	}
	// An earlier constraint may refuse the node first.
	refused, err := s.verdicts()
	if err != nil {
		return fwk.AsStatus(err)
	}
	if verdict := refused[node.Name]; verdict != nil {
		return statusOf(verdict)
	}
	return fwk.NewStatus(fwk.Unschedulable, reasonSkew)
}

// imagine returns the state in which PodTopologySpread sees pods added and removed, or nil if it makes no difference
// to a pod whether another one is there.
func imagine(state fwk.CycleState, other *corev1.Pod) (*treeState, *fwk.Status) {
	s, status := read[*filterState](state, filterKey)
	counts := func(selector labels.Selector) bool { return selector.Matches(labels.Set(other.Labels)) }
	switch {
	case s == nil || s.tree != nil:
	case other.Namespace != s.namespace || !slices.ContainsFunc(s.selectors, counts):
		return nil, nil
	default:
		var tree *treeState
		if tree, status = s.counts(); status.IsSuccess() {
			s.tree = tree.copied()
		}
	}
	if !status.IsSuccess() {
		return nil, status
	}
	return s.tree, nil
}

func statusOf(verdict *evenkeelv1.NodeVerdict) *fwk.Status {
	if verdict.GetCode() == evenkeelv1.Code_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, verdict.GetReason())
	}
	return fwk.NewStatus(fwk.Unschedulable, verdict.GetReason())
}
