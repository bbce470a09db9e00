package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster is what a file of `synth` (crates/testing) holds.
type cluster struct {
	// nodes in ascending order of their names, which is Evenkeel's node order.
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

// readCluster reads a file of `synth`: a list with one object a line.
func readCluster(path string) (*cluster, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	read := &cluster{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := read.add(bytes.TrimSuffix(lines.Bytes(), []byte(","))); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	sort.Slice(read.nodes, func(a, b int) bool { return read.nodes[a].Name < read.nodes[b].Name })
	return read, lines.Err()
}

// add adds the object of a line. The list's own first and last line hold none.
func (c *cluster) add(line []byte) error {
	switch {
	case bytes.Contains(line, []byte(`"kind":"Node"`)):
		node := &corev1.Node{}
		c.nodes = append(c.nodes, node)
		return json.Unmarshal(line, node)
	case bytes.Contains(line, []byte(`"kind":"Pod"`)):
		pod := &corev1.Pod{}
		c.pods = append(c.pods, pod)
		return json.Unmarshal(line, pod)
	}
	return nil
}

// workloads are the first pods of count workloads, evenly chosen from all of
// them in ascending order of their names: large ones and small ones.
func (c *cluster) workloads(count int) []*corev1.Pod {
	first := map[string]*corev1.Pod{}
	var names []string
	for _, pod := range c.pods {
		name := pod.Labels["app"]
		if first[name] == nil {
			first[name] = pod
			names = append(names, name)
		}
	}
	sort.Strings(names)
	count = min(count, len(names))
	chosen := make([]*corev1.Pod, count)
	for i := range chosen {
		chosen[i] = first[names[i*len(names)/count]]
	}
	return chosen
}

// question is what the pods of a row ask for: constraints on the keys, or affinity or
// anti-affinity to their own workload by a key, or neither where pods that run have some.
type question struct {
	isHard       bool
	keys         []string
	isOfAffinity bool
	near, apart  string
}

var (
	zone            = []string{corev1.LabelTopologyZone}
	zoneAndHostname = []string{corev1.LabelTopologyZone, corev1.LabelHostname}

	ofSpread = []question{
		{isHard: true, keys: zone},
		{isHard: true, keys: zoneAndHostname},
		{isHard: false, keys: zone},
		{isHard: false, keys: zoneAndHostname},
	}
	ofAffinity = []question{
		{isHard: true, isOfAffinity: true, near: corev1.LabelTopologyZone},
		{isHard: true, isOfAffinity: true, apart: corev1.LabelTopologyZone},
		{isHard: true, isOfAffinity: true, apart: corev1.LabelHostname},
	}
)

// questions are those that both decide alike: what Filter checks besides is nothing, or
// the affinity of the pods that run.
func (c *cluster) questions() []question {
	if c.pods[0].Spec.Affinity == nil {
		return append(slices.Clone(ofSpread), ofAffinity...)
	}
	return append([]question{{isHard: true, isOfAffinity: true}}, ofAffinity...)
}

func (q question) String() string {
	switch {
	case q.near != "":
		return "affinity by " + q.near
	case q.apart != "":
		return "anti-affinity by " + q.apart
	case q.isOfAffinity:
		return "no terms of its own"
	}
	name := "zone"
	if len(q.keys) > 1 {
		name += " + hostname"
	}
	if q.isHard {
		return name + " hard"
	}
	return name + " soft"
}

// incoming is one more pod of a workload. It tolerates the taint that some nodes
// have, so its constraints alone decide: the plugin looks at nothing else.
func (q question) incoming(workload *corev1.Pod) *corev1.Pod {
	action := corev1.ScheduleAnyway
	if q.isHard {
		action = corev1.DoNotSchedule
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": workload.Labels["app"]}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: workload.Namespace, Labels: workload.Labels},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		},
	}
	terms := func(key string) []corev1.PodAffinityTerm {
		if key == "" {
			return nil
		}
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}}
	}
	if q.isOfAffinity {
		pod.Spec.Affinity = &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(q.near)},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(q.apart)},
		}
	}
	for _, key := range q.keys {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints,
			corev1.TopologySpreadConstraint{
				MaxSkew:           2,
				TopologyKey:       key,
				WhenUnsatisfiable: action,
				LabelSelector:     selector,
			})
	}
	return pod
}

// decision is, in node order, 1 for each feasible node and 0 for the others, or
// the score of each node.
type decision []int64
