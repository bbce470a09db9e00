package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	namespace = "default"
	zones     = 3
	workloads = 4
)

// cluster is nodes, and pods by name.
type cluster struct {
	nodes []*corev1.Node
	pods  map[string]*corev1.Pod
	made  int
}

// randomCluster has zones with unequal numbers of nodes, and pods that crowd on the first ones.
func randomCluster(random *rand.Rand, sort sort) *cluster {
	made := &cluster{pods: map[string]*corev1.Pod{}}
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(fmt.Sprint(*pods / *nodes * 3))}
	for number := range *nodes {
		name := fmt.Sprintf("n%d", number)
		zone := number
		if number >= zones {
			zone = random.IntN(zones)
		}
		made.nodes = append(made.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", zone%zones),
			}},
			Status: corev1.NodeStatus{Allocatable: room, Capacity: room},
		})
	}
	on := make([]int, *nodes)
	for number := range *pods {
		at := min(random.IntN(*nodes), random.IntN(*nodes))
		for on[at] >= *pods / *nodes * 3 {
			at = (at + 1) % *nodes
		}
		on[at]++
		pod := newPod(number%workloads, sort)
		pod.Spec.NodeName = made.nodes[at].Name
		made.add(pod)
	}
	return made
}

func newPod(workload int, sort sort) *corev1.Pod {
	app := fmt.Sprintf("app-%d", workload)
	labels := map[string]string{"app": app}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: ptr.To(true)},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	action := corev1.ScheduleAnyway
	if sort.isHard {
		action = corev1.DoNotSchedule
	}
	for _, key := range sort.keys {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
			corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: action,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels}})
	}
	return pod
}

// add adds a pod under a name that none had.
func (c *cluster) add(pod *corev1.Pod) {
	pod.Name = fmt.Sprintf("pod-%d", c.made)
	pod.UID = types.UID(pod.Name)
	c.made++
	c.pods[pod.Name] = pod
}

func (c *cluster) copied() *cluster {
	copied := &cluster{nodes: c.nodes, pods: map[string]*corev1.Pod{}, made: c.made}
	for name, pod := range c.pods {
		copied.pods[name] = pod.DeepCopy()
	}
	return copied
}
