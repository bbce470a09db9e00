package spread

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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
	// inTree: PodTopologySpread decides about this pod, and keeps a state of its own.
	inTree bool
	link   *link
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
	// imagined are the pods that AddPod and RemovePod have changed, as they are then.
	imagined map[types.UID]*corev1.Pod
}

// Clone copies what AddPod and RemovePod change.
func (s *filterState) Clone() fwk.StateData {
	copied := *s
	copied.imagined = maps.Clone(s.imagined)
	return &copied
}

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
	return evenkeel.Convert(asked, &evenkeelv1.Pod{})
}

// newFilterState asks which nodes pass.
func newFilterState(ctx context.Context, l *link, pod *corev1.Pod,
	constraints []corev1.TopologySpreadConstraint) (*filterState, error) {
	asked, err := question(pod, constraints)
	if err != nil {
		return nil, err
	}
	s := &filterState{link: l, pod: asked, namespace: pod.Namespace, imagined: map[types.UID]*corev1.Pod{}}
	for _, constraint := range constraints {
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
			selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
			if err != nil {
				return nil, err
			}
			s.keys = append(s.keys, constraint.TopologyKey)
			s.selectors = append(s.selectors, selector)
		}
	}
	request := &evenkeelv1.FilterRequest{View: evenkeelv1.View_VIEW_BITMAP}
	err = l.ask(ctx, func(ctx context.Context, state seen) error {
		for range attempts {
			answer, err := s.filter(ctx, state, request)
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
	s.verdicts = sync.OnceValues(func() (map[string]*evenkeelv1.NodeVerdict, error) { return s.refusals(ctx, nil, nil) })
	return s, err
}

// filter asks one question about the pod.
func (s *filterState) filter(ctx context.Context, state seen,
	request *evenkeelv1.FilterRequest) (*evenkeelv1.FilterResponse, error) {
	few := int32(1)
	request.Snapshot, request.Pod, request.MaxDomains = s.link.args.Snapshot, s.pod, &few
	request.NodeChecks = evenkeelv1.NodeChecks_NODE_CHECKS_SPREAD_ONLY
	request.MinRevision, request.Epoch = state.revision, state.epoch
	answer, err := state.decider.Filter(ctx, request).Wait()
	if err == nil {
		err = s.link.checkAge(answer.GetAge(), answer.GetNodeCount()+int64(len(answer.GetUnknownCandidates())))
	}
	return answer, err
}

// refusals asks for the nodes that do not pass: of all, or of some with changes.
func (s *filterState) refusals(ctx context.Context, candidates *evenkeelv1.NodeNames,
	overlay []*evenkeelv1.Change) (map[string]*evenkeelv1.NodeVerdict, error) {
	refused := make(map[string]*evenkeelv1.NodeVerdict)
	request := &evenkeelv1.FilterRequest{View: evenkeelv1.View_VIEW_FULL, Candidates: candidates, Overlay: overlay}
	err := s.link.ask(ctx, func(ctx context.Context, state seen) error {
		answer, err := s.filter(ctx, state, request)
		for _, verdict := range answer.GetInfeasible() {
			refused[verdict.GetNode()] = verdict
		}
		for _, unknown := range answer.GetUnknownCandidates() {
			refused[unknown] = &evenkeelv1.NodeVerdict{Reason: reasonUnknownNode}
		}
		return err
	})
	return refused, err
}

// passes returns the verdict about one node.
func (s *filterState) passes(ctx context.Context, node *corev1.Node) *fwk.Status {
	if len(s.imagined) > 0 {
		return s.passesImagined(ctx, node.Name)
	}
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

// passesImagined asks about one node with the pods as AddPod and RemovePod left them.
func (s *filterState) passesImagined(ctx context.Context, node string) *fwk.Status {
	var overlay []*evenkeelv1.Change
	for _, pod := range s.imagined {
		changed, err := evenkeel.Convert(pod, &evenkeelv1.Pod{})
		if err != nil {
			return fwk.AsStatus(err)
		}
		overlay = append(overlay, evenkeel.Change(changed))
	}
	refused, err := s.refusals(ctx, &evenkeelv1.NodeNames{Names: []string{node}}, overlay)
	switch verdict := refused[node]; {
	case err != nil:
		return fwk.AsStatus(err)
	case verdict != nil:
		return statusOf(verdict)
	}
	return nil
}

// imagine has a pod be on a node, or finished there: so it counts no longer, whether Evenkeel has it by its
// feed or as a reservation.
func (s *filterState) imagine(pod *corev1.Pod, node string, isThere bool) {
	counts := func(selector labels.Selector) bool { return selector.Matches(labels.Set(pod.Labels)) }
	if pod.Namespace != s.namespace || !slices.ContainsFunc(s.selectors, counts) {
		return
	}
	former, imagined := s.imagined[pod.UID]
	if imagined && former.Spec.NodeName == node && (former.Status.Phase == corev1.PodSucceeded) == isThere {
		delete(s.imagined, pod.UID)
		return
	}
	changed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if !isThere {
		changed.Status.Phase = corev1.PodSucceeded
	}
	s.imagined[pod.UID] = changed
}

func statusOf(verdict *evenkeelv1.NodeVerdict) *fwk.Status {
	if verdict.GetCode() == evenkeelv1.Code_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, verdict.GetReason())
	}
	return fwk.NewStatus(fwk.Unschedulable, verdict.GetReason())
}
