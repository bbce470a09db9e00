package compare

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// TestSpeed prints a table for docs/evidence/kubernetes.md: SPEED=1000x5000 go test -run Speed -v ./compare, with
// EVENKEEL and EVENKEEL_SCHEDULER, two programs that are built for release.
func TestSpeed(t *testing.T) {
	var nodes, pods int
	if _, err := fmt.Sscanf(os.Getenv("SPEED"), "%dx%d", &nodes, &pods); err != nil {
		t.Skip("SPEED says no size")
	}
	c := start(t)
	const zones, workloads = 10, 50
	var names []string
	for number := range nodes {
		names = append(names, fmt.Sprintf("node-%d", number))
	}
	c.atOnce(names, func(number int, name string) { c.addNode(name, fmt.Sprintf("zone-%d", number%zones), "110") })
	c.atOnce(make([]string, pods), func(number int, _ string) {
		pod := webPod(fmt.Sprintf("running-%d", number), fmt.Sprintf("app-%d", number%workloads))
		pod.Spec.NodeName = names[number%nodes]
		c.addPod(pod)
	})
	t.Logf("| %d nodes, %d pods | plugin | pods/s | algorithm, ms: mean | p50 below | p99 below | CPU of the scheduler, s | of the server |", nodes, pods)
	for _, action := range []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		for range number("TURNS", 3) {
			for _, plugin := range []string{"", "EvenkeelSpread"} {
				c.turn(plugin, action)
			}
		}
	}
}

// turn has 500 pods bound, which are there when the scheduler starts, and removes them.
func (c *cluster) turn(plugin string, action corev1.UnsatisfiableConstraintAction) {
	c.Helper()
	const count = 500
	var names []string
	for number := range count {
		names = append(names, fmt.Sprintf("new-%d", number))
	}
	c.atOnce(names, func(_ int, name string) {
		c.addPod(webPod(name, "new", spreadBy(corev1.LabelTopologyZone, "new", 1, action),
			spreadBy(corev1.LabelHostname, "new", 1, action)))
	})
	c.holds()
	seen := make(chan struct{}, count)
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	factory := informers.NewSharedInformerFactoryWithOptions(c.Clientset, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app=new" }))
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if before.(*corev1.Pod).Spec.NodeName == "" && after.(*corev1.Pod).Spec.NodeName != "" {
				seen <- struct{}{}
			}
		},
	})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	port := ports(c.T, 1)
	scheduler := exec.Command(os.Getenv("EVENKEEL_SCHEDULER"), c.flags(c.configure(plugin, ""), port)...)
	log, _ := os.Create(filepath.Join(c.directory, "scheduler.log"))
	scheduler.Stderr = log
	if err := scheduler.Start(); err != nil {
		c.Fatal(err)
	}
	server := ticks(c.server.Process.Pid)
	var first, last time.Time
	for bound := range count {
		select {
		case <-seen:
			if last = time.Now(); bound == 0 {
				first = last
			}
		case <-time.After(patience):
			c.Fatal("only ", bound, " pods are bound")
		}
	}
	mean, p50, p99 := algorithm(c, port)
	_ = scheduler.Process.Signal(os.Interrupt)
	_ = scheduler.Wait()
	c.Logf("| %s | %s | %.0f | %.2f | %s | %s | %.1f | %.1f |", action, map[bool]string{true: "in-tree", false: "ours"}[plugin == ""],
		(count-1)/last.Sub(first).Seconds(), mean, p50, p99,
		(scheduler.ProcessState.UserTime() + scheduler.ProcessState.SystemTime()).Seconds(), (ticks(c.server.Process.Pid)-server)/100)
	c.atOnce(names, func(_ int, name string) {
		_ = c.CoreV1().Pods("default").Delete(background, name, metav1.DeleteOptions{})
	})
	c.holds()
}

// atOnce does something for each, several at a time.
func (c *cluster) atOnce(names []string, do func(number int, name string)) {
	work := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for number := range work {
				do(number, names[number])
			}
		})
	}
	for number := range names {
		work <- number
	}
	close(work)
	workers.Wait()
}

// ticks returns the CPU time of a process, in hundredths of a second.
func ticks(pid int) float64 {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[slices.Index(stat, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return user + system
}

var bucket = regexp.MustCompile(`scheduler_scheduling_algorithm_duration_seconds_(bucket\{le="([^"]+)"\}|sum|count) (\S+)`)

// algorithm returns how long the scheduling algorithm took: the mean, and bounds of buckets of its histogram.
func algorithm(c *cluster, port string) (mean float64, p50, p99 string) {
	c.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Get("https://127.0.0.1:" + port + "/metrics")
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	values := map[string]float64{}
	var bounds []string
	for _, line := range bucket.FindAllStringSubmatch(string(text), -1) {
		values[line[1]], _ = strconv.ParseFloat(line[3], 64)
		if line[2] != "" {
			bounds = append(bounds, line[2])
			values[line[2]] = values[line[1]]
		}
	}
	below := func(share float64) string {
		for _, bound := range bounds {
			if values[bound] >= share*values["count"] {
				seconds, _ := strconv.ParseFloat(bound, 64)
				return fmt.Sprintf("%.0f", 1000*seconds)
			}
		}
		return "-"
	}
	return 1000 * values["sum"] / values["count"], below(0.5), below(0.99)
}
