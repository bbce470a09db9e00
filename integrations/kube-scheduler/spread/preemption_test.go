package spread

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// spreads is what the framework calls of both plugins.
type spreads interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// BenchmarkPreemption tries the victims of 1,000 nodes as kube-scheduler does: on each node all are removed, and as
// many as possible are added again, one by one. The time, and that of CPUs, is that of one pod that preempts, PreFilter
// left out.
func BenchmarkPreemption(b *testing.B) {
	for _, victims := range []int{1, 4} {
		nodes, running := make([]*corev1.Node, 1000), make([]*corev1.Pod, 0, 1000*victims)
		refused := map[string]evenkeelv1.Code{}
		for number := range nodes {
			name := fmt.Sprintf("node-%03d", number)
			nodes[number] = newNode(name, zone, fmt.Sprintf("zone-%d", number%10), corev1.LabelHostname, name)
			refused[name] = evenkeelv1.Code_CODE_UNSCHEDULABLE
			for victim := range victims {
				running = append(running, on(newPod(fmt.Sprintf("web-%d-%d", number, victim)), name))
			}
		}
		bench := newBenchOf(b, "", running, nodes)
		bench.fake.set(func() {
			bench.fake.nodes, bench.fake.refused = nil, refused
			for _, node := range nodes {
				bench.fake.nodes = append(bench.fake.nodes, node.Name)
			}
		})
		for by, constraints := range map[string][]corev1.TopologySpreadConstraint{
			"zone": {hard(zone)}, "zone+hostname": {hard(zone), hard(corev1.LabelHostname)},
		} {
			for name, plugin := range map[string]spreads{"EvenkeelSpread": bench.Plugin, "PodTopologySpread": bench.tree} {
				b.Run(fmt.Sprintf("%s/victims=%d/%s", by, victims, name), func(b *testing.B) {
					bench.preempt(b, plugin, newPod("web-9", constraints...))
				})
			}
		}
	}
}

func (b *bench) preempt(t *testing.B, plugin spreads, pod *corev1.Pod) {
	ctx, parallelizer := context.Background(), parallelize.NewParallelizer(parallelize.DefaultParallelism)
	var cpu time.Duration
	for range t.N {
		t.StopTimer()
		state := framework.NewCycleState()
		if _, status := plugin.PreFilter(ctx, state, pod, b.nodes); !status.IsSuccess() {
			t.Fatal(status)
		}
		before := cpuTime()
		t.StartTimer()
		parallelizer.Until(ctx, len(b.nodes), func(number int) {
			clone, node := state.Clone(), b.nodes[number].Snapshot()
			victims := append([]fwk.PodInfo{}, node.GetPods()...)
			for _, victim := range victims {
				_ = node.RemovePod(klog.Background(), victim.GetPod())
				plugin.PreFilterExtensions().RemovePod(ctx, clone, pod, victim, node)
			}
			plugin.Filter(ctx, clone, pod, node)
			for _, victim := range victims {
				node.AddPodInfo(victim)
				plugin.PreFilterExtensions().AddPod(ctx, clone, pod, victim, node)
				if plugin.Filter(ctx, clone, pod, node).IsSuccess() {
					continue
				}
				_ = node.RemovePod(klog.Background(), victim.GetPod())
				plugin.PreFilterExtensions().RemovePod(ctx, clone, pod, victim, node)
			}
		}, "preemption")
		cpu += cpuTime() - before
	}
	t.ReportMetric(float64(cpu.Nanoseconds())/float64(t.N), "cpu-ns/op")
}

// cpuTime returns what this process has used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
