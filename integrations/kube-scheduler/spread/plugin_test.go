package spread

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
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
	fake      *fake
	stop      func()
	nodes     []fwk.NodeInfo
	activated atomic.Int32
}

func (b *bench) Activate(klog.Logger, map[string]*corev1.Pod) { b.activated.Add(1) }

func newBench(t *testing.T, more string) *bench {
	t.Helper()
	fake, address, stop := serve(t, "127.0.0.1:0")
	b := &bench{fake: fake, stop: stop}
	snapshot := schedcache.NewSnapshot(running, nodes)
	factory := informers.NewSharedInformerFactory(kubefake.NewClientset(), 0)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithPodActivator(b))
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
		`{}`:                                 "address",
		`{"address": "e:1", "adress": ""}`:   "adress",
		`{"address": "e:1", "timeout": "x"}`: "duration",
		`{"address": "e:1", "timeout": "-1s", "maxAge": "-1s"}`:   "timeout",
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
	same(t, args.Timeout.Duration+args.MaxAge.Duration, 121*time.Second)
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

func TestImaginedPods(t *testing.T) {
	b := newBench(t, "")
	pod := newPod("web-1", hard(zone))
	b.fake.set(func() { b.fake.refused = map[string]evenkeelv1.Code{"a1": 1, "a2": 1} })
	_, state := b.filter(t, pod)
	cloned := state.Clone()
	info := func(pod *corev1.Pod) fwk.PodInfo {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	other := newPod("db-0")
	other.Labels = nil
	b.RemovePod(t.Context(), cloned, pod, info(other), b.nodes[0])
	b.RemovePod(t.Context(), cloned, pod, info(running[0]), b.nodes[0])
	b.AddPod(t.Context(), cloned, pod, info(newPod("web-2")), b.nodes[0])
	b.fake.set(func() { b.fake.filters = nil })
	b.Filter(t.Context(), cloned, pod, b.nodes[0])
	same(t, len(b.fake.filters), 1)
	asked := b.fake.filters[0]
	same(t, strings.Join(asked.GetCandidates().GetNames(), " "), "a1")
	imagined := map[string]string{}
	for _, change := range asked.GetOverlay() {
		imagined[change.GetPod().GetMetadata().GetName()] = change.GetPod().GetSpec().GetNodeName() + change.GetPod().GetStatus().GetPhase()
	}
	if want := map[string]string{"web-0": "a1Succeeded", "web-2": "a1"}; !maps.Equal(imagined, want) {
		t.Fatal(imagined)
	}
	// What is taken back is asked no more, and the first state knows nothing of it.
	b.AddPod(t.Context(), cloned, pod, info(running[0]), b.nodes[0])
	b.RemovePod(t.Context(), cloned, pod, info(newPod("web-2")), b.nodes[0])
	same(t, b.again(t, cloned, pod), "--+-")
	same(t, b.again(t, state, pod), "--+-")
	same(t, len(b.fake.filters), 1)
}

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
		{newPod("web-1", soft(zone)), `, "onUnavailable": "Fail"`, func(f *fake) { f.age = time.Hour }, "Error"},
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
		"stale":     func(f *fake) { f.age = time.Hour },
		"empty":     func(f *fake) { f.nodes = nil },
		"behind":    func(f *fake) { f.revision = 1 },
		"full":      func(f *fake) { f.fault = codes.ResourceExhausted },
	} {
		t.Run(name, func(t *testing.T) {
			for policy, want := range map[OnUnavailable]string{Fail: "Error", InTree: "--+!"} {
				b := newBench(t, `, "onUnavailable": "`+string(policy)+`"`)
				b.Reserve(t.Context(), nil, newPod("web-2"), "a1")
				nodes, revision := b.fake.nodes, b.fake.revision
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
					info, _ := framework.NewPodInfo(running[0])
					same(t, b.RemovePod(t.Context(), state, pod, info, b.nodes[0]).IsSuccess(), true)
					same(t, b.again(t, state, pod), "+++!")
				}
				b.fake.set(func() {
					b.fake.fault, b.fake.slow, b.fake.age = codes.OK, 0, 0
					b.fake.nodes, b.fake.revision = nodes, revision
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
		again   int32
	}{{unlike, fwk.QueueSkip, 0}, {running[0], fwk.Queue, 1}} {
		hint, err := events[0].QueueingHintFn(klog.Background(), pod, test.deleted, nil)
		own, _ := upstream[0].QueueingHintFn(klog.Background(), pod, test.deleted, nil)
		if err != nil || hint != test.want || own != hint {
			t.Fatal(hint, err)
		}
		b.filter(t, pod)
		b.filter(t, pod)
		until(t, func() bool { return b.activated.Load() == test.again })
	}
	for _, pod := range []*corev1.Pod{pod, newPod("web-1")} {
		_, status := b.SignPod(t.Context(), pod)
		same(t, status.Code(), fwk.Unschedulable)
	}
}
