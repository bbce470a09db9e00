// Package compare runs the plugin in kube-scheduler on a real control plane, that of tests/external/kubernetes.
package compare

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience is how long anything may take.
const patience = 3 * time.Minute

// cluster is a control plane, a server that watches it, and a client.
type cluster struct {
	*testing.T
	*kubernetes.Clientset
	directory, kubeconfig string
	// feed is the kubeconfig of Evenkeel.
	feed             string
	program, address string
	server           *exec.Cmd
	zones            map[string]string
}

// start fails the test where something is absent.
func start(t *testing.T) *cluster {
	t.Helper()
	program, _ := filepath.Abs(cmp.Or(os.Getenv("EVENKEEL"), "../../../target/debug/evenkeel"))
	if _, err := os.Stat(program); err != nil {
		t.Fatal("build evenkeel, or name it in EVENKEEL: ", err)
	}
	c := &cluster{T: t, directory: t.TempDir(), program: program, address: "127.0.0.1:" + ports(t, 1)}
	plane := exec.Command("../../../tests/external/kubernetes/control-plane", c.directory, ports(t, 5))
	plane.Stderr = os.Stderr
	input, _ := plane.StdinPipe()
	output, _ := plane.StdoutPipe()
	if err := plane.Start(); err != nil {
		t.Fatal("no control plane: ", err)
	}
	t.Cleanup(func() { _ = input.Close(); _ = plane.Wait() })
	lines := bufio.NewScanner(output)
	lines.Scan()
	if lines.Text() != "ready" {
		t.Fatal("the control plane does not start: ", lines.Text())
	}
	c.kubeconfig = filepath.Join(c.directory, "admin.kubeconfig")
	c.feed = c.kubeconfig
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 5000, 5000
	c.Clientset = kubernetes.NewForConfigOrDie(config)
	c.serve()
	t.Cleanup(c.kill)
	return c
}

// ports returns the first of some free ports that follow each other.
func ports(t *testing.T, count int) string {
	t.Helper()
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port, free := first.Addr().(*net.TCPAddr).Port, true
		_ = first.Close()
		for next := port; next < port+count && free; next++ {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", next))
			if free = err == nil; free {
				_ = listener.Close()
			}
		}
		if free {
			return fmt.Sprint(port)
		}
	}
	t.Fatal("no free ports")
	return ""
}

// serve starts Evenkeel.
func (c *cluster) serve() {
	c.server = exec.Command(c.program, "serve", "--listen", c.address, "--kubernetes", "--kubeconfig", c.feed,
		"--log-format", "json", "--drain-pause", "0s")
	c.server.Env = []string{}
	log, err := os.Create(filepath.Join(c.directory, "evenkeel.log"))
	if err != nil {
		c.Fatal(err)
	}
	c.server.Stderr = log
	if err := c.server.Start(); err != nil {
		c.Fatal(err)
	}
}

// kill ends Evenkeel at once.
func (c *cluster) kill() {
	_ = c.server.Process.Signal(syscall.SIGCONT)
	_ = c.server.Process.Kill()
	_ = c.server.Wait()
}

// holds waits until Evenkeel has as many nodes and pods as the API server.
func (c *cluster) holds() {
	c.Helper()
	client, err := evenkeel.Dial(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c.until("Evenkeel has all", func() bool {
		answer, err := client.GetSnapshot(c.Context(), &evenkeelv1.GetSnapshotRequest{})
		held := answer.GetSnapshot()
		// One of all tells how many there are.
		one := metav1.ListOptions{Limit: 1}
		nodes := must[*corev1.NodeList](c)(c.CoreV1().Nodes().List(c.Context(), one))
		pods := must[*corev1.PodList](c)(c.CoreV1().Pods("").List(c.Context(), one))
		return err == nil && held.GetSynced() && held.GetNodeCount() == count(len(nodes.Items), nodes.RemainingItemCount) &&
			held.GetPodCount() == count(len(pods.Items), pods.RemainingItemCount)
	})
}

// count returns how many objects there are, of which a list has some.
func count(listed int, remaining *int64) int64 {
	if remaining == nil {
		return int64(listed)
	}
	return int64(listed) + *remaining
}

func (c *cluster) until(what string, holds func() bool) {
	c.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(c.directory, "evenkeel.log"))
			c.Fatalf("not within %s: %s\n%s", patience, what, log[max(0, len(log)-2000):])
		}
	}
}

// must fails the test on an error.
func must[T any](c *cluster) func(T, error) T {
	return func(value T, err error) T {
		c.Helper()
		if err != nil {
			c.Fatal(err)
		}
		return value
	}
}

// addNode makes a node that takes so many pods.
func (c *cluster) addNode(name, zone string, pods string) {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if zone != "" {
		node.Labels[corev1.LabelTopologyZone] = zone
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse(pods),
	}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must[*corev1.Node](c)(c.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{}))
}

// addClass makes a priority class.
func (c *cluster) addClass(name string, value int32) {
	c.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	must[*schedulingv1.PriorityClass](c)(c.SchedulingV1().PriorityClasses().Create(c.Context(), class, metav1.CreateOptions{}))
}

// webPod is a pod of a workload.
func webPod(name, app string, constraints ...corev1.TopologySpreadConstraint) *corev1.Pod {
	now := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "image"}},
			TerminationGracePeriodSeconds: &now, TopologySpreadConstraints: constraints,
		},
	}
}

func spreadBy(key, app string, maxSkew int32, action corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: action,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}
}

// addPod makes a pod.
func (c *cluster) addPod(pod *corev1.Pod) {
	c.Helper()
	must[*corev1.Pod](c)(c.CoreV1().Pods(pod.Namespace).Create(c.Context(), pod, metav1.CreateOptions{}))
}

// list returns all pods.
func (c *cluster) list() []corev1.Pod {
	c.Helper()
	return must[*corev1.PodList](c)(c.CoreV1().Pods("").List(c.Context(), metav1.ListOptions{})).Items
}

// decided waits until the scheduler has bound a pod or said why not, and returns its node.
func (c *cluster) decided(name string) (node string) {
	c.Helper()
	c.until("the pod "+name+" is decided about", func() bool {
		pod, err := c.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		node = pod.Spec.NodeName
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return node != ""
	})
	return node
}

// configure writes a scheduler's configuration, with or without the plugin.
func (c *cluster) configure(plugin, more string) string {
	c.Helper()
	profile := `- schedulerName: default-scheduler`
	if plugin != "" {
		profile += fmt.Sprintf(`
  plugins:
    multiPoint:
      enabled: [{name: %s, weight: 2}]
      disabled: [{name: PodTopologySpread}]
  pluginConfig:
  - name: %s
    args: {address: "%s"%s}`, plugin, plugin, c.address, more)
	}
	config := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s, qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
profiles:
%s
`, c.kubeconfig, profile)
	path := filepath.Join(c.directory, "scheduler-"+strings.ToLower(cmp.Or(plugin, "in-tree"))+".yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		c.Fatal(err)
	}
	return path
}

// flags are those of a scheduler with a configuration.
func (c *cluster) flags(config, port string) []string {
	return []string{
		"--config=" + config, "--secure-port=" + port, "--bind-address=127.0.0.1",
		"--authentication-kubeconfig=" + c.kubeconfig, "--authorization-kubeconfig=" + c.kubeconfig,
		"--authorization-always-allow-paths=/readyz,/metrics",
	}
}

var background = context.Background()
