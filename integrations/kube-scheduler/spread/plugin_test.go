package spread

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	evenkeelv1 "evenkeel.dev/client/v1"
)

const zone = corev1.LabelTopologyZone

func init() { metrics.Register() }

func newNode(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for number := 0; number < len(labels); number += 2 {
		node.Labels[labels[number]] = labels[number+1]
	}
	return node
}

func newPod(name string, constraints ...corev1.TopologySpreadConstraint) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{TopologySpreadConstraints: constraints},
	}
}

func on(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeName = node
	return pod
}

func constraint(key string, action corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: action,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
}

func hard(key string) corev1.TopologySpreadConstraint { return constraint(key, corev1.DoNotSchedule) }
func soft(key string) corev1.TopologySpreadConstraint { return constraint(key, corev1.ScheduleAnyway) }

// a1 and a2 are in zone a and b1 in zone b; c1 has no zone and is not known to Evenkeel.
var (
	nodes = []*corev1.Node{newNode("a1", zone, "a"), newNode("a2", zone, "a"), newNode("b1", zone, "b"), newNode("c1")}
	// What kube-scheduler has: zone a is full for a hard constraint.
	running = []*corev1.Pod{on(newPod("web-0"), "a1")}
)

// bench is the plugin on a fake of Evenkeel and a snapshot of the scheduler's cache.
type bench struct {
	*Plugin
	fake  *fake
	stop  func()
	nodes []fwk.NodeInfo
}

func newBench(t testing.TB, more string) *bench { return newBenchOf(t, more, running, nodes) }

func newBenchOf(t testing.TB, more string, running []*corev1.Pod, nodes []*corev1.Node) *bench {
	t.Helper()
	fake, address, stop := serve(t, "127.0.0.1:0")
	b := &bench{fake: fake, stop: stop}
	snapshot := schedcache.NewSnapshot(running, nodes)
	factory := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	args := &runtime.Unknown{Raw: []byte(`{"address": "` + address + `", "timeout": "200ms"` + more + `}`)}
	plugin, err := New(t.Context(), args, handle)
	if err != nil {
		t.Fatal(err)
	}
	b.Plugin = plugin.(*Plugin)
	for name := range 9 {
		_ = factory.Core().V1().Pods().Informer().GetIndexer().Add(newPod("web-" + string(rune('0'+name))))
	}
	for _, node := range nodes {
		info, err := snapshot.Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		b.nodes = append(b.nodes, info)
	}
	return b
}

// filter returns what PreFilter and Filter say: a letter for each node.
func (b *bench) filter(t *testing.T, pod *corev1.Pod) (string, fwk.CycleState) {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := b.PreFilter(t.Context(), state, pod, b.nodes); !status.IsSuccess() {
		return status.Code().String(), state
	}
	return b.again(t, state, pod), state
}

func (b *bench) again(t *testing.T, state fwk.CycleState, pod *corev1.Pod) string {
	letters := map[fwk.Code]string{fwk.Success: "+", fwk.Unschedulable: "-", fwk.UnschedulableAndUnresolvable: "!"}
	var verdicts strings.Builder
	for _, node := range b.nodes {
		verdicts.WriteString(letters[b.Filter(t.Context(), state, pod, node).Code()])
	}
	return verdicts.String()
}

func same[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// until waits for what comes by itself.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

func TestArgs(t *testing.T) {
	for given, fault := range map[string]string{
		`{}`:                                                      "address",
		`{"address": "e:1", "adress": ""}`:                        "adress",
		`{"address": "e:1", "timeout": "x"}`:                      "duration",
		`{"address": "e:1", "timeout": "-1s"}`:                    "timeout",
		`{"address": "e:1", "maxAge": "2m"}`:                      "maxAge",
		`{"address": "e:1", "onUnavailable": "Ignore"}`:           "onUnavailable",
		`{"address": "e:1", "tokenFile": "/token"}`:               "tls",
		`{"address": "e:1", "tls": {"certFile": "c"}}`:            "keyFile",
		`{"address": "e:1", "tls": {}, "tokenFile": "/token"}`:    "",
		"address: e:1\nonUnavailable: Fail\ndefaultingType: List": "",
	} {
		_, err := readArgs(&runtime.Unknown{Raw: []byte(given)})
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", given, err)
		}
	}
	args, _ := readArgs(&runtime.Unknown{Raw: []byte(`{"address": "e:1"}`)})
	same(t, args.Snapshot+" "+string(args.OnUnavailable)+" "+string(args.DefaultingType), "default InTree System")
	same(t, args.Timeout.Duration, time.Second)
}

func TestFilter(t *testing.T) {
	b := newBench(t, `, "onUnavailable": "Fail"`)
	unresolvable := evenkeelv1.Code_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
	for _, test := range []struct {
		pod     *corev1.Pod
		refused map[string]evenkeelv1.Code
		want    string
		asked   int
	}{
		{newPod("web-1"), nil, "Skip", 0},
		{newPod("web-1", soft(zone)), nil, "Skip", 0},
		{newPod("web-1", hard(zone)), nil, "+++-", 1},
		{newPod("web-1", hard(zone)), map[string]evenkeelv1.Code{"a1": 1, "a2": 1}, "--+-", 1},
		// All lack the first key, or the second: then Evenkeel says which constraint refuses, once.
		{newPod("web-1", hard("rack")), map[string]evenkeelv1.Code{"a1": 2, "b1": 2}, "!+!-", 1},
		{newPod("web-1", hard(zone), hard("rack")), map[string]evenkeelv1.Code{"a1": unresolvable, "a2": 1, "b1": 2}, "!-!-", 2},
	} {
		b.fake.set(func() { b.fake.refused, b.fake.filters = test.refused, nil })
		got, _ := b.filter(t, test.pod)
		same(t, got, test.want)
		same(t, len(b.fake.filters), test.asked)
	}
	same(t, b.fake.lists, 2)
	// Another node: its names are asked for again, in two pages.
	b.fake.set(func() {
		b.fake.nodes = []string{"a1", "a2", "b1", "c1"}
		b.fake.refused = map[string]evenkeelv1.Code{"b1": 1}
		b.fake.revision, b.fake.order = 9, 9
	})
	got, _ := b.filter(t, newPod("web-1", hard(zone)))
	same(t, got, "++-+")
	same(t, b.fake.lists, 4)
}

// podInfo is a pod as the scheduler has it.
func podInfo(t testing.TB, pod *corev1.Pod) fwk.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestImaginedPods(t *testing.T) {
	b := newBench(t, "")
	pod := newPod("web-1", hard(zone))
	b.fake.set(func() { b.fake.refused = map[string]evenkeelv1.Code{"a1": 1, "a2": 1} })
	_, state := b.filter(t, pod)
	cloned := state.Clone()
	b.fake.set(func() { b.fake.filters = nil })
	other := newPod("db-0")
	other.Labels = nil
	// A pod that does not count changes nothing: Evenkeel's answer counts, which does not know c1.
	b.RemovePod(t.Context(), cloned, pod, podInfo(t, other), b.nodes[0])
	same(t, b.again(t, cloned, pod), "--+-")
	// From here on PodTopologySpread decides, which says that c1 lacks the key.
	b.RemovePod(t.Context(), cloned, pod, podInfo(t, running[0]), b.nodes[0])
	same(t, b.again(t, cloned, pod), "+++!")
	twice := cloned.Clone()
	b.AddPod(t.Context(), twice, pod, podInfo(t, newPod("web-2")), b.nodes[2])
	same(t, b.again(t, twice, pod), "++-!")
	// Other states know nothing of it.
	same(t, b.again(t, cloned, pod), "+++!")
	same(t, b.again(t, state, pod), "--+-")
	b.AddPod(t.Context(), cloned, pod, podInfo(t, running[0]), b.nodes[0])
	same(t, b.again(t, cloned, pod), "--+!")
	same(t, len(b.fake.filters), 0)
}

// decidedInTree reads the metric.
func decidedInTree(t *testing.T, reason string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "scheduler_evenkeel_in_tree_decisions_total" && metric.GetLabel()[0].GetValue() == reason {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// What the API server has admitted is decided about, whatever Evenkeel finds wrong with it.
func TestInvalid(t *testing.T) {
	b := newBench(t, `, "onUnavailable": "Fail"`)
	before := decidedInTree(t, "invalid")
	b.fake.set(func() { b.fake.fault = codes.InvalidArgument })
	got, state := b.filter(t, newPod("web-1", hard(zone)))
	same(t, got, "--+!")
	status := b.PreScore(t.Context(), state, newPod("web-1", soft(zone)), b.nodes)
	same(t, status.IsSuccess(), true)
	same(t, decidedInTree(t, "invalid")-before, 2)
	// Evenkeel is still asked about others.
	b.fake.set(func() { b.fake.fault = codes.OK })
	got, _ = b.filter(t, newPod("web-2", hard(zone)))
	same(t, got, "+++-")
}

// at is an object of a resource version.
func at[T metav1.Object](object T, version string) T {
	copied := any(object).(runtime.Object).DeepCopyObject().(T)
	copied.SetResourceVersion(version)
	return copied
}

// A decision asks Evenkeel to have read what the scheduler has seen of what decisions read.
func TestSightings(t *testing.T) {
	b := newBench(t, "")
	seen, seenNodes, node := b.seen.pods, b.seen.nodes, nodes[0]
	pending, bound := newPod("web-7", hard(zone)), on(newPod("web-7", hard(zone)), "a1")
	relabelled, finished := bound.DeepCopy(), bound.DeepCopy()
	relabelled.Labels["app"], finished.Status.Phase = "other", corev1.PodRunning
	tainted, reported := node.DeepCopy(), node.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	reported.Status.Phase = corev1.NodeRunning
	for name, test := range map[string]struct {
		event     func()
		pod, node uint64
	}{
		"a pod that waits":       {func() { seen.OnAdd(at(pending, "20"), false) }, 0, 0},
		"a pod that runs":        {func() { seen.OnAdd(at(bound, "21"), true) }, 21, 0},
		"a pod is bound":         {func() { seen.OnUpdate(at(pending, "20"), at(bound, "22")) }, 22, 0},
		"a pod is relabelled":    {func() { seen.OnUpdate(at(bound, "20"), at(relabelled, "23")) }, 23, 0},
		"a status of a pod":      {func() { seen.OnUpdate(at(bound, "20"), at(finished, "24")) }, 0, 0},
		"a pod is deleted":       {func() { seen.OnDelete(at(bound, "25")) }, 25, 0},
		"a waiting pod is gone":  {func() { seen.OnDelete(at(pending, "26")) }, 0, 0},
		"an older event":         {func() { seen.OnDelete(at(bound, "27")); seen.OnDelete(at(bound, "9")) }, 27, 0},
		"a node is tainted":      {func() { seenNodes.OnUpdate(at(node, "20"), at(tainted, "28")) }, 0, 28},
		"a status of a node":     {func() { seenNodes.OnUpdate(at(node, "20"), at(reported, "29")) }, 0, 0},
		"a restored cluster":     {func() { seen.OnDelete(at(bound, "90")); seen.OnUpdate(at(bound, "80"), at(bound, "30")) }, 0, 0},
		"an event queues a pod":  {func() { b.seen.queued(at(bound, "31"), nil) }, 31, 0},
		"an event of a node too": {func() { b.seen.queued(at(node, "3"), at(node, "32")) }, 0, 32},
	} {
		seen.newest, seenNodes.newest = 0, 0
		test.event()
		versions := b.seen.versions(false)
		if versions["Pod"] != test.pod || versions["Node"] != test.node || len(versions) != 2 {
			t.Errorf("%s: %v", name, versions)
		}
	}
	same(t, len(b.seen.versions(true)), 6)
}

// With a real informer a deletion has its own version, also where it was missed.
func TestSightingsOfInformer(t *testing.T) {
	client := kubefake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	seen, err := watch(factory, false)
	if err != nil {
		t.Fatal(err)
	}
	informer := &listed{SharedIndexInformer: seen.pods.informer, version: "70"}
	seen.pods.informer = informer
	// Before its events have come, what was listed counts.
	same(t, seen.versions(false)["Pod"], 70)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	until(t, seen.pods.hasSynced)
	informer.version = "80"
	same(t, seen.versions(false)["Pod"], 70)
	seen.pods.OnDelete(cache.DeletedFinalStateUnknown{Key: "shop/web-0", Obj: at(running[0], "12")})
	same(t, seen.versions(false)["Pod"], 80)
	informer.version = "90"
	same(t, seen.versions(false)["Pod"], 80)
}

// listed is an informer whose list is of a version.
type listed struct {
	cache.SharedIndexInformer
	version string
}

func (l *listed) LastSyncResourceVersion() string { return l.version }

func TestScore(t *testing.T) {
	for _, test := range []struct {
		pod    *corev1.Pod
		more   string
		change func(*fake)
		want   string
	}{
		{newPod("web-1", hard(zone)), "", nil, "Skip"},
		{newPod("web-1", soft(zone)), "", nil, "40 0 100 0"},
		{newPod("web-1"), "", nil, "40 0 100 0"},
		{newPod("web-1"), `, "defaultingType": "List"`, nil, "Skip"},
		{newPod("web-1", soft(zone)), "", func(f *fake) { f.scores = nil }, "Skip"},
		{newPod("web-1", soft(zone)), `, "onUnavailable": "Fail"`, func(f *fake) { f.fault = codes.NotFound }, "Error"},
		{newPod("web-1"), `, "onUnavailable": "Fail"`, func(f *fake) { f.defaults = 0 }, "Error"},
		// PodTopologySpread's: the zones have 1 and 0 pods.
		{newPod("web-1", soft(zone)), "", func(f *fake) { f.fault = codes.FailedPrecondition }, "0 0 100 0"},
	} {
		b := newBench(t, test.more)
		b.fake.scores = map[string]int32{"a1": 40, "a2": 0, "b1": 100}
		if test.change != nil {
			test.change(b.fake)
		}
		state := framework.NewCycleState()
		if status := b.PreScore(t.Context(), state, test.pod, b.nodes); !status.IsSuccess() {
			same(t, status.Code().String(), test.want)
			continue
		}
		var scores fwk.NodeScoreList
		for _, node := range b.nodes {
			score, status := b.Score(t.Context(), state, test.pod, node)
			same(t, status.IsSuccess(), true)
			scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: score})
		}
		same(t, b.NormalizeScore(t.Context(), state, test.pod, scores).IsSuccess(), true)
		var texts []string
		for _, score := range scores {
			texts = append(texts, fmt.Sprint(score.Score))
		}
		same(t, strings.Join(texts, " "), test.want)
	}
}

func TestReservations(t *testing.T) {
	b := newBench(t, "")
	pod := newPod("web-1", hard(zone))
	reserved := func(want map[string]string) {
		t.Helper()
		b.fake.set(func() {
			if !maps.Equal(b.fake.reserved, want) {
				t.Fatal(b.fake.reserved)
			}
		})
	}
	b.Reserve(t.Context(), nil, newPod("web-2"), "a1")
	b.Reserve(t.Context(), nil, newPod("web-3"), "b1")
	reserved(map[string]string{"web-2": "a1", "web-3": "b1"})
	b.filter(t, pod)
	asked := b.fake.filters[0]
	same(t, asked.GetEpoch()+" "+string(rune('0'+asked.GetMinRevision())), "first 7")
	b.Unreserve(t.Context(), nil, newPod("web-2"), "a1")
	b.Unreserve(t.Context(), nil, newPod("web-2"), "a1")
	same(t, strings.Join(b.fake.released, " "), "first-web-2")

	// Another epoch has none: those that may not have arrived are reserved before the next answer.
	b.Reserve(t.Context(), nil, newPod("web-4"), "a2")
	gone := newPod("gone")
	_ = b.factory.Core().V1().Pods().Informer().GetIndexer().Add(gone)
	b.Reserve(t.Context(), nil, gone, "a2")
	_ = b.factory.Core().V1().Pods().Informer().GetIndexer().Delete(gone)
	b.fake.set(func() {
		b.fake.epoch, b.fake.revision, b.fake.order = "second", 1, 1
		b.fake.reserved, b.fake.steps = map[string]string{}, nil
	})
	got, _ := b.filter(t, pod)
	same(t, got, "+++-")
	reserved(map[string]string{"web-3": "b1", "web-4": "a2"})
	if want := []string{"reserve", "filter"}; !slices.Equal(b.fake.steps, want) {
		t.Fatal(b.fake.steps)
	}
	// So does one that begins between two reservations.
	b.fake.set(func() { b.fake.epoch, b.fake.reserved = "third", map[string]string{} })
	b.Reserve(t.Context(), nil, newPod("web-5"), "a1")
	reserved(map[string]string{"web-3": "b1", "web-4": "a2", "web-5": "a1"})
	// A pod that Evenkeel does not take keeps no other from it.
	bad := newPod("bad")
	_ = b.factory.Core().V1().Pods().Informer().GetIndexer().Add(bad)
	b.Reserve(t.Context(), nil, bad, "a1")
	b.fake.set(func() { b.fake.epoch, b.fake.reserved = "fourth", map[string]string{} })
	b.Reserve(t.Context(), nil, newPod("web-6"), "b1")
	got, _ = b.filter(t, pod)
	same(t, got, "+++-")
	reserved(map[string]string{"web-3": "b1", "web-4": "a2", "web-5": "a1", "web-6": "b1"})
}

func TestUnavailable(t *testing.T) {
	pod := newPod("web-1", hard(zone))
	for name, wrong := range map[string]func(*fake){
		"not there": func(f *fake) { f.fault = codes.NotFound },
		"no feed":   func(f *fake) { f.fault = codes.FailedPrecondition },
		"slow":      func(f *fake) { f.slow = time.Second },
		"silent":    func(f *fake) { f.read = nil },
		"behind":    func(f *fake) { f.revision = 1 },
		"full":      func(f *fake) { f.fault = codes.ResourceExhausted },
	} {
		t.Run(name, func(t *testing.T) {
			for policy, want := range map[OnUnavailable]string{Fail: "Error", InTree: "--+!"} {
				b := newBench(t, `, "onUnavailable": "`+string(policy)+`"`)
				b.seen.pods.OnAdd(at(running[0], "12"), true)
				b.fake.set(func() { b.fake.read["Pod"] = 12 })
				b.Reserve(t.Context(), nil, newPod("web-2"), "a1")
				revision := b.fake.revision
				b.fake.set(func() { wrong(b.fake) })
				got, _ := b.filter(t, pod)
				same(t, got, want)
				// Not asked again at once; and what is reserved meanwhile is told before the next answer.
				start := time.Now()
				b.Reserve(t.Context(), nil, newPod("web-3"), "b1")
				got, state := b.filter(t, pod)
				same(t, got, want)
				if time.Since(start) > 150*time.Millisecond {
					t.Error("it waits for Evenkeel", time.Since(start))
				}
				if policy == InTree {
					same(t, b.RemovePod(t.Context(), state, pod, podInfo(t, running[0]), b.nodes[0]).IsSuccess(), true)
					same(t, b.again(t, state, pod), "+++!")
				}
				b.fake.set(func() {
					b.fake.fault, b.fake.slow = codes.OK, 0
					b.fake.read, b.fake.revision = map[string]uint64{"Pod": 12}, revision
				})
				until(t, func() bool { got, _ := b.filter(t, pod); return got == "+++-" })
				b.fake.set(func() { same(t, b.fake.reserved["web-3"], "b1") })
			}
		})
	}
}

func TestServerComesBack(t *testing.T) {
	b := newBench(t, "")
	pod := newPod("web-1", hard(zone))
	b.filter(t, pod)
	b.stop()
	got, _ := b.filter(t, pod)
	same(t, got, "--+!")
	b.Reserve(t.Context(), nil, newPod("web-2"), "b1")
	fake, _, _ := serve(t, b.args.Address)
	until(t, func() bool { got, _ := b.filter(t, pod); return got == "+++-" })
	fake.set(func() { same(t, fake.reserved["web-2"], "b1") })
}

func TestEvents(t *testing.T) {
	b := newBench(t, "")
	events, err := b.EventsToRegister(t.Context())
	if err != nil || len(events) != 3 {
		t.Fatal(events, err)
	}
	upstream, _ := b.tree.EventsToRegister(t.Context())
	pod, unlike := newPod("web-1", hard(zone)), on(newPod("db-0"), "a1")
	unlike.Labels = nil
	for _, test := range []struct {
		deleted *corev1.Pod
		want    fwk.QueueingHint
	}{{unlike, fwk.QueueSkip}, {at(running[0], "40"), fwk.Queue}} {
		hint, err := events[0].QueueingHintFn(klog.Background(), pod, test.deleted, nil)
		own, _ := upstream[0].QueueingHintFn(klog.Background(), pod, test.deleted, nil)
		if err != nil || hint != test.want || own != hint {
			t.Fatal(hint, err)
		}
	}
	// The pod is decided about with the event.
	b.fake.set(func() { b.fake.read["Pod"] = 40 })
	b.filter(t, pod)
	same(t, b.fake.filters[0].GetMinResourceVersions()["Pod"], 40)
	for _, pod := range []*corev1.Pod{pod, newPod("web-1")} {
		_, status := b.SignPod(t.Context(), pod)
		same(t, status.Code(), fwk.Unschedulable)
	}
}
