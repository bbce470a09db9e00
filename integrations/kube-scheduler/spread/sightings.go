package spread

import (
	"maps"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// sightings are what the scheduler has seen of the kinds that decisions read: Evenkeel is asked to have read at
// least as much.
type sightings struct {
	pods, nodes *sighting
	// owners are the kinds from which Evenkeel deduces the selectors of default constraints.
	owners []*sighting
}

// watch follows what the scheduler sees. Owners are followed where Evenkeel deduces selectors.
func watch(factory informers.SharedInformerFactory, withOwners bool) (*sightings, error) {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	s := &sightings{
		pods:  &sighting{kind: "Pod", informer: core.Pods().Informer()},
		nodes: &sighting{kind: "Node", informer: core.Nodes().Informer()},
	}
	if withOwners {
		s.owners = []*sighting{
			{kind: "Service", informer: core.Services().Informer()},
			{kind: "ReplicationController", informer: core.ReplicationControllers().Informer()},
			{kind: "ReplicaSet", informer: apps.ReplicaSets().Informer()},
			{kind: "StatefulSet", informer: apps.StatefulSets().Informer()},
		}
	}
	for _, each := range append([]*sighting{s.pods, s.nodes}, s.owners...) {
		registration, err := each.informer.AddEventHandler(each)
		if err != nil {
			return nil, err
		}
		each.hasSynced = registration.HasSynced
	}
	return s, nil
}

// versions returns the resource versions that a snapshot must have read, by kind.
func (s *sightings) versions(deduces bool) map[string]uint64 {
	versions := map[string]uint64{s.pods.kind: s.pods.version(), s.nodes.kind: s.nodes.version()}
	if deduces {
		for _, owner := range s.owners {
			versions[owner.kind] = owner.version()
		}
	}
	return versions
}

// queued notes the event that queues a pod, which may come before the informer tells of it here.
func (s *sightings) queued(old, new any) {
	for _, object := range []any{old, new} {
		switch object.(type) {
		case *corev1.Pod:
			s.pods.see(object)
		case *corev1.Node:
			s.nodes.see(object)
		}
	}
}

// sighting is what the scheduler has seen of a kind.
type sighting struct {
	kind      string
	informer  cache.SharedIndexInformer
	hasSynced func() bool

	mutex sync.Mutex
	// newest resource version of a change that decisions may depend on.
	newest uint64
	// missed: there was a change without an event, which the list that the informer has now has.
	missed bool
}

// version returns what a snapshot must have read.
func (s *sighting) version() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.missed || !s.hasSynced() {
		s.missed = false
		s.newest = max(s.newest, number(s.informer.LastSyncResourceVersion()))
	}
	return s.newest
}

func (s *sighting) see(object any) {
	if pod, isPod := object.(*corev1.Pod); isPod && pod.Spec.NodeName == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.newest = max(s.newest, versionOf(object))
}

// OnAdd notes an object.
func (s *sighting) OnAdd(object any, _ bool) { s.see(object) }

// OnUpdate notes a change. An older version says that the cluster was restored from a backup.
func (s *sighting) OnUpdate(old, new any) {
	switch {
	case versionOf(new) < versionOf(old):
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.newest, s.missed = 0, true
	case matters(old, new):
		s.see(new)
	}
}

// OnDelete notes a deletion.
func (s *sighting) OnDelete(object any) {
	if _, isMissed := object.(cache.DeletedFinalStateUnknown); isMissed {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.missed = true
		return
	}
	s.see(object)
}

// matters returns whether a decision may depend on a change. Most changes are of a status.
func matters(old, new any) bool {
	switch new := new.(type) {
	case *corev1.Pod:
		old := old.(*corev1.Pod)
		return old.UID != new.UID || old.Spec.NodeName != new.Spec.NodeName || !maps.Equal(old.Labels, new.Labels) ||
			(old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil)
	case *corev1.Node:
		old := old.(*corev1.Node)
		return !maps.Equal(old.Labels, new.Labels) || !apiequality.Semantic.DeepEqual(old.Spec.Taints, new.Spec.Taints)
	case *corev1.Service:
		return !maps.Equal(old.(*corev1.Service).Spec.Selector, new.Spec.Selector)
	case *corev1.ReplicationController:
		return !maps.Equal(old.(*corev1.ReplicationController).Spec.Selector, new.Spec.Selector)
	}
	// The selectors of other owners do not change.
	return false
}

func versionOf(object any) uint64 {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return 0
	}
	return number(metadata.GetResourceVersion())
}

// number returns a resource version as one; 0 if it is none.
func number(version string) uint64 {
	value, _ := strconv.ParseUint(version, 10, 64)
	return value
}
