package compare

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"evenkeel.dev/kube-scheduler/spread"
)

const (
	// lag is how much later Evenkeel may hear of what the scheduler has heard of: a deletion, or a node.
	lag = 3 * time.Second
	// Where the scheduler is behind, it has to look again. What differs so often differs.
	looks = 3
)

// tally is what was compared.
type tally struct {
	isExact                                           atomic.Bool
	sets, scores, imagined, late, different, reserves atomic.Int64
	mutex                                             sync.Mutex
	first                                             string
	looks                                             map[string]int
	informers                                         informers.SharedInformerFactory
}

func (y *tally) differs(format string, values ...any) {
	y.different.Add(1)
	y.mutex.Lock()
	defer y.mutex.Unlock()
	if y.first == "" {
		y.first = fmt.Sprintf(format, values...)
	}
}

// both is the plugin, with PodTopologySpread asked about the same.
type both struct {
	*spread.Plugin
	tree   *podtopologyspread.PodTopologySpread
	handle fwk.Handle
	tally  *tally
}

func (y *tally) factory(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	own, err := spread.New(ctx, args, handle)
	if err != nil {
		return nil, err
	}
	tree, err := podtopologyspread.New(ctx, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}, handle,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	y.informers = handle.SharedInformerFactory()
	return &both{own.(*spread.Plugin), tree.(*podtopologyspread.PodTopologySpread), handle, y}, nil
}

// agree asks until both say the same, for as long as Evenkeel may be behind. If they do not, the pod has to be
// tried again.
func (b *both) agree(what string, pod *corev1.Pod, ask func() (own, tree string)) *fwk.Status {
	own, tree := ask()
	if own == tree || !b.tally.isExact.Load() {
		return nil
	}
	first := own
	for end := time.Now().Add(lag); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if own, tree = ask(); own == tree {
			b.tally.late.Add(1)
			return nil
		}
	}
	b.tally.mutex.Lock()
	b.tally.looks[pod.Name]++
	isLast := b.tally.looks[pod.Name] == looks
	b.tally.mutex.Unlock()
	if !isLast {
		return fwk.NewStatus(fwk.Error, "look again")
	}
	b.tally.differs("%s of %s (%+v):\nEvenkeel %s\nat first %s\nin-tree  %s", what, pod.Name,
		pod.Spec.TopologySpreadConstraints, own, first, tree)
	return nil
}

func verdict(node string, status *fwk.Status) string {
	return fmt.Sprintf("%s %s %s; ", node, status.Code(), status.Message())
}

func (b *both) Name() string { return "Both" }

func (b *both) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (result *fwk.PreFilterResult, status *fwk.Status) {
	_, tree := b.tree.PreFilter(ctx, state, pod, nodes)
	again := b.agree("nodes", pod, func() (own, upstream string) {
		result, status = b.Plugin.PreFilter(ctx, state, pod, nodes)
		own, upstream = status.Code().String(), tree.Code().String()
		if !status.IsSuccess() || !tree.IsSuccess() {
			return own, upstream
		}
		for _, node := range nodes {
			name := node.Node().Name
			own += verdict(name, b.Plugin.Filter(ctx, state, pod, node))
			upstream += verdict(name, b.tree.Filter(ctx, state, pod, node))
		}
		b.tally.sets.Add(1)
		return own, upstream
	})
	if again != nil {
		return nil, again
	}
	return result, status
}

func (b *both) PreFilterExtensions() fwk.PreFilterExtensions { return b }

func (b *both) AddPod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, added fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	b.tally.imagined.Add(1)
	b.tree.AddPod(ctx, state, pod, added, node)
	return b.Plugin.AddPod(ctx, state, pod, added, node)
}

func (b *both) RemovePod(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, removed fwk.PodInfo,
	node fwk.NodeInfo) *fwk.Status {
	b.tally.imagined.Add(1)
	b.tree.RemovePod(ctx, state, pod, removed, node)
	return b.Plugin.RemovePod(ctx, state, pod, removed, node)
}

func (b *both) Filter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	status := b.Plugin.Filter(ctx, state, pod, node)
	if tree := b.tree.Filter(ctx, state, pod, node); b.tally.isExact.Load() && tree.Code() != status.Code() {
		again := b.agree("one node", pod, func() (string, string) {
			status = b.Plugin.Filter(ctx, state, pod, node)
			return verdict(node.Node().Name, status), verdict(node.Node().Name, tree)
		})
		if again != nil {
			return again
		}
	}
	return status
}

func (b *both) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod,
	nodes []fwk.NodeInfo) (status *fwk.Status) {
	tree := b.tree.PreScore(ctx, state, pod, nodes)
	again := b.agree("scores", pod, func() (own, upstream string) {
		status = b.Plugin.PreScore(ctx, state, pod, nodes)
		own, upstream = status.Code().String(), tree.Code().String()
		if !status.IsSuccess() || !tree.IsSuccess() {
			return own, upstream
		}
		b.tally.scores.Add(1)
		return own + scores(ctx, b.Plugin, state, pod, nodes), upstream + scores(ctx, b.tree, state, pod, nodes)
	})
	if again != nil {
		return again
	}
	return status
}

func scores(ctx context.Context, plugin fwk.ScorePlugin, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) string {
	var all fwk.NodeScoreList
	for _, node := range nodes {
		score, _ := plugin.Score(ctx, state, pod, node)
		all = append(all, fwk.NodeScore{Name: node.Node().Name, Score: score})
	}
	plugin.ScoreExtensions().NormalizeScore(ctx, state, pod, all)
	return fmt.Sprint(all)
}

// Reserve checks that PodTopologySpread lets the pod go there, which sees all that were reserved before.
func (b *both) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	b.tally.reserves.Add(1)
	if info, err := b.handle.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
		if status := b.tree.Filter(ctx, state, pod, info); status.Code() == fwk.Unschedulable {
			b.tally.differs("%s goes to %s, in-tree: %s", pod.Name, node, status.Message())
		}
	}
	return b.Plugin.Reserve(ctx, state, pod, node)
}

// settle waits until the scheduler and Evenkeel have what the API server has.
func (s *sequence) settle(y *tally) {
	s.Helper()
	core := y.informers.Core().V1()
	s.until("the scheduler has all", func() bool {
		held := map[types.UID]string{}
		nodes, _ := core.Nodes().Lister().List(labels.Everything())
		for _, node := range nodes {
			held[node.UID] = node.ResourceVersion
		}
		pods, _ := core.Pods().Lister().List(labels.Everything())
		for _, pod := range pods {
			held[pod.UID] = pod.ResourceVersion
		}
		stored := map[types.UID]string{}
		for _, node := range must[*corev1.NodeList](s.cluster)(s.CoreV1().Nodes().List(background, metav1.ListOptions{})).Items {
			stored[node.UID] = node.ResourceVersion
		}
		for _, pod := range s.list() {
			stored[pod.UID] = pod.ResourceVersion
		}
		return maps.Equal(held, stored)
	})
	s.holds()
}

// sequence makes what a seed says.
type sequence struct {
	*cluster
	random *rand.Rand
	nodes  []string
	made   int
}

func (s *sequence) constraints(app string) (all []corev1.TopologySpreadConstraint) {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		action := corev1.DoNotSchedule
		if s.random.IntN(3) == 0 {
			action = corev1.ScheduleAnyway
		}
		one := spreadBy(key, app, 1+s.random.Int32N(2), action)
		if action == corev1.DoNotSchedule && s.random.IntN(6) == 0 {
			domains := 2 + s.random.Int32N(4)
			one.MinDomains = &domains
		}
		policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
		if s.random.IntN(4) == 0 {
			one.NodeAffinityPolicy, one.NodeTaintsPolicy = &policies[s.random.IntN(2)], &policies[s.random.IntN(2)]
		}
		if s.random.IntN(5) > 0 {
			all = append(all, one)
		}
	}
	if s.random.IntN(2) == 0 && len(all) == 2 {
		all[0], all[1] = all[1], all[0]
	}
	return all
}

// step makes a pod and waits for its decision; before that it may delete a pod or change a node.
func (s *sequence) step(settle func()) {
	s.Helper()
	app := fmt.Sprintf("app-%d", s.random.IntN(4))
	switch s.random.IntN(12) {
	case 0, 1, 2:
		pods := s.list()
		s.random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, pod := range pods[:len(pods)/10+min(len(pods), 1)] {
			_ = s.CoreV1().Pods("default").Delete(background, pod.Name, metav1.DeleteOptions{})
		}
	case 3:
		s.changeNode()
	}
	settle()
	pod := webPod(fmt.Sprintf("pod-%d", s.made), app, s.constraints(app)...)
	s.made++
	switch s.random.IntN(8) {
	case 0:
		pod.Spec.PriorityClassName = "high"
	case 1:
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: s.zone()}
	case 2:
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	s.addPod(pod)
	s.decided(pod.Name)
}

func (s *sequence) zone() string { return fmt.Sprintf("zone-%d", s.random.IntN(3)) }

func (s *sequence) changeNode() {
	number := s.random.IntN(len(s.nodes))
	if s.random.IntN(3) == 0 {
		name := fmt.Sprintf("node-%d", 1000+s.made)
		s.addNode(name, s.zone(), "6")
		_ = s.CoreV1().Nodes().Delete(background, s.nodes[number], metav1.DeleteOptions{})
		for _, pod := range s.list() {
			if pod.Spec.NodeName == s.nodes[number] {
				_ = s.CoreV1().Pods("default").Delete(background, pod.Name, metav1.DeleteOptions{})
			}
		}
		s.nodes[number] = name
		return
	}
	node := must[*corev1.Node](s.cluster)(s.CoreV1().Nodes().Get(background, s.nodes[number], metav1.GetOptions{}))
	switch s.random.IntN(4) {
	case 0:
		delete(node.Labels, corev1.LabelTopologyZone)
	case 1:
		node.Labels[corev1.LabelTopologyZone] = s.zone()
	case 2:
		node.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}
	default:
		node.Spec.Taints = nil
	}
	must[*corev1.Node](s.cluster)(s.CoreV1().Nodes().Update(background, node, metav1.UpdateOptions{}))
}

func number(name string, otherwise int) int {
	if given, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return given
	}
	return otherwise
}

func TestDecidesAsInTree(t *testing.T) {
	c := start(t)
	seed := number("SEED", 1)
	s := &sequence{cluster: c, random: rand.New(rand.NewPCG(uint64(seed), 0))}
	c.addClass("high", 1000)
	for number := range 12 {
		s.nodes = append(s.nodes, fmt.Sprintf("node-%d", number))
		c.addNode(s.nodes[number], fmt.Sprintf("zone-%d", number%3), "6")
	}
	c.holds()

	y := &tally{looks: map[string]int{}}
	command := app.NewSchedulerCommand(app.WithPlugin("Both", y.factory))
	command.SetArgs(c.flags(c.configure("Both", `, timeout: 2s`), ports(t, 1)))
	// It ends with this program.
	go func() { _ = command.Execute() }()

	s.step(func() {})
	y.isExact.Store(true)
	steps := number("STEPS", 500)
	for range steps {
		s.step(func() { s.settle(y) })
		if y.different.Load() > 0 {
			break
		}
	}
	t.Logf("seed %d, %d pods: %d sets and %d scores alike, %d of them after waiting, %d pods reserved, %d imagined",
		seed, steps, y.sets.Load(), y.scores.Load(), y.late.Load(), y.reserves.Load(), y.imagined.Load())
	y.isExact.Store(false)
	for fault, inject := range map[string]func(){
		"killed": func() { c.kill(); go func() { time.Sleep(2 * time.Second); c.serve() }() },
		"halted": func() {
			process := c.server.Process
			_ = process.Signal(syscall.SIGSTOP)
			time.AfterFunc(4*time.Second, func() { _ = process.Signal(syscall.SIGCONT) })
		},
	} {
		before := y.reserves.Load()
		inject()
		for range 20 {
			s.step(func() {})
		}
		t.Logf("%s: %d of 20 pods reserved", fault, y.reserves.Load()-before)
	}
	if y.different.Load() > 0 {
		t.Errorf("%d differences, the first: %s", y.different.Load(), y.first)
	}
}
