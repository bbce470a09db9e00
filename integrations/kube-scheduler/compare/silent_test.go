package compare

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"evenkeel.dev/kube-scheduler/spread"
)

// TestMain runs a scheduler where this program is started as one.
func TestMain(m *testing.M) {
	if flags := os.Getenv("RUN_SCHEDULER"); flags != "" {
		command := app.NewSchedulerCommand(app.WithPlugin(spread.Name, spread.New))
		command.SetArgs(strings.Fields(flags))
		if command.Execute() != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// schedule starts a scheduler of its own process, which ends with the test.
func (c *cluster) schedule(more string) {
	c.Helper()
	program, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	scheduler := exec.Command(program)
	scheduler.Env = append(os.Environ(), "RUN_SCHEDULER="+strings.Join(c.flags(c.configure(spread.Name, more), ports(c.T, 1)), " "))
	log, err := os.Create(filepath.Join(c.directory, "scheduler.log"))
	if err != nil {
		c.Fatal(err)
	}
	scheduler.Stderr = log
	if err := scheduler.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = scheduler.Process.Kill(); _ = scheduler.Wait() })
}

// wire is a connection to the API server that may fall silent: nothing passes then, and nothing is closed.
type wire struct {
	address  string
	isSilent atomic.Bool
}

// newWire leads to an address.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	w := &wire{address: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go w.pass(server, client)
			go w.pass(client, server)
		}
	}()
	return w
}

func (w *wire) pass(to, from net.Conn) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		length, err := from.Read(buffer)
		for w.isSilent.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if _, failed := io.Copy(to, bytes.NewReader(buffer[:length])); err != nil || failed != nil {
			return
		}
	}
}

// behindWire starts Evenkeel anew, with a connection to the API server that may fall silent.
func (c *cluster) behindWire() *wire {
	c.Helper()
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		c.Fatal(err)
	}
	var w *wire
	for _, each := range config.Clusters {
		server, err := url.Parse(each.Server)
		if err != nil {
			c.Fatal(err)
		}
		w = newWire(c.T, server.Host)
		server.Host = w.address
		each.Server = server.String()
	}
	c.feed = filepath.Join(c.directory, "silent.kubeconfig")
	if err := clientcmd.WriteToFile(*config, c.feed); err != nil {
		c.Fatal(err)
	}
	c.kill()
	c.serve()
	c.holds()
	return w
}

// The connection of Evenkeel falls silent, that of the scheduler does not: no pod is bound by counts of before.
func TestSilentFeed(t *testing.T) {
	for _, policy := range []spread.OnUnavailable{spread.InTree, spread.Fail} {
		t.Run(string(policy), func(t *testing.T) {
			c := start(t)
			for number := range 6 {
				c.addNode(fmt.Sprintf("node-%d", number), fmt.Sprintf("zone-%d", number%3), "20")
			}
			w := c.behindWire()
			c.schedule(fmt.Sprintf(", onUnavailable: %s", policy))
			web := func(from, to int) (names []string) {
				for number := from; number < to; number++ {
					names = append(names, fmt.Sprintf("web-%d", number))
					c.addPod(webPod(names[len(names)-1], "web", spreadBy(corev1.LabelTopologyZone, "web", 1, corev1.DoNotSchedule)))
				}
				return names
			}
			bound := func(names []string) bool {
				pods := c.list()
				return !slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
					return slices.Contains(names, pod.Name) && pod.Spec.NodeName == ""
				})
			}
			first := web(0, 9)
			c.until("the first are bound", func() bool { return bound(first) })
			same(c, c.zonesOf(), "3 3 3")
			c.holds()
			for turn, zone := range []string{"zone-0", "zone-1"} {
				w.isSilent.Store(true)
				for _, pod := range c.list() {
					if c.zoneOf(pod.Spec.NodeName) == zone {
						if err := c.CoreV1().Pods("default").Delete(background, pod.Name, metav1.DeleteOptions{}); err != nil {
							c.Fatal(err)
						}
					}
				}
				start := time.Now()
				next := web(10*(turn+1), 10*(turn+1)+3)
				if policy == spread.Fail {
					// They wait while Evenkeel is behind.
					time.Sleep(3 * time.Second)
					same(c, bound(next), false)
					w.isSilent.Store(false)
				}
				c.until("the next are bound", func() bool { return bound(next) })
				c.Logf("bound within %s", time.Since(start))
				same(c, c.zonesOf(), "3 3 3")
				w.isSilent.Store(false)
				c.holds()
			}
		})
	}
}

// zoneOf returns the zone of a node.
func (c *cluster) zoneOf(node string) string {
	c.Helper()
	return must[*corev1.Node](c)(c.CoreV1().Nodes().Get(background, node, metav1.GetOptions{})).Labels[corev1.LabelTopologyZone]
}

// zonesOf returns how many pods each zone has.
func (c *cluster) zonesOf() string {
	c.Helper()
	counts := make([]int, 3)
	for _, pod := range c.list() {
		var zone int
		if _, err := fmt.Sscanf(c.zoneOf(pod.Spec.NodeName), "zone-%d", &zone); err != nil {
			c.Fatal(err)
		}
		counts[zone]++
	}
	return strings.Trim(fmt.Sprint(counts), "[]")
}

func same[T comparable](c *cluster, got, want T) {
	c.Helper()
	if got != want {
		log, _ := os.ReadFile(filepath.Join(c.directory, "scheduler.log"))
		c.Fatalf("got %v, want %v\n%s", got, want, log[max(0, len(log)-2000):])
	}
}
