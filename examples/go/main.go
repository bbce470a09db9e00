// A small orchestrator: feeds a cluster, asks where pods may and should run,
// places them with reservations, starts them and confirms.
//
// Each server has its own state, revisions and reservations. So all of them are
// fed, any of them is asked, and one of them reserves.
//
// Nodes and pods are Kubernetes' own types: their bytes are Evenkeel's.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

const snapshot = "go"

// convert reads an object of Kubernetes as one of Evenkeel.
func convert[T proto.Message](object interface{ Marshal() ([]byte, error) }, into T) T {
	read, err := evenkeel.Convert(object, into)
	if err != nil {
		log.Fatalf("convert %T: %v", object, err)
	}
	return read
}

func node(name, zone string) *evenkeelv1.Node {
	labels := map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}
	return convert(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, &evenkeelv1.Node{})
}

func pod(name, nodeName string) *evenkeelv1.Pod {
	labels := map[string]string{"app": "web"}
	constraint := func(key string, when corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: when,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: labels},
		}
	}
	phase := corev1.PodPending
	if nodeName != "" {
		phase = corev1.PodRunning
	}
	return convert(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: nodeName,
			// Not read by decisions, and skipped.
			Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				constraint(corev1.LabelTopologyZone, corev1.DoNotSchedule),
				constraint(corev1.LabelHostname, corev1.ScheduleAnyway),
			},
		},
		Status: corev1.PodStatus{Phase: phase},
	}, &evenkeelv1.Pod{})
}

type orchestrator struct {
	// servers are fed, each at its own address. The first one reserves.
	servers []*evenkeel.Client
	// questions goes to any server that is ready.
	questions *evenkeel.Client
	feeds     []*evenkeel.Feed
	mutex     sync.Mutex
	// objects is the cluster, by name.
	objects map[string]*evenkeelv1.Change
	// position is of the first server. The others count their own revisions.
	position evenkeel.Position
}

// feed replaces the snapshot of each server by the whole cluster.
func (o *orchestrator) feed(ctx context.Context) error {
	for _, zone := range []string{"a", "b", "c"} {
		for _, number := range []string{"1", "2"} {
			name := "node-" + zone + number
			o.objects[name] = evenkeel.Change(node(name, "zone-"+zone))
		}
	}
	for _, server := range o.servers {
		feed := evenkeel.NewFeed(server, evenkeel.FeedOptions{
			Snapshot: snapshot,
			List:     o.list,
			OnError:  func(err error) { log.Print("feed: ", err) },
		})
		go func() { _ = feed.Run(ctx) }()
		o.feeds = append(o.feeds, feed)
	}
	return o.flush(ctx)
}

// list returns the whole cluster. A feed asks for it at first, and when a server has lost it.
func (o *orchestrator) list(context.Context) ([]*evenkeelv1.Change, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return slices.Collect(maps.Values(o.objects)), nil
}

// update returns once every server has applied a change of a pod. From then on all of
// them answer alike, so questions need no MinRevision. The change is noted before it is sent, so
// no list is without it.
func (o *orchestrator) update(ctx context.Context, name string, change *evenkeelv1.Change) error {
	o.mutex.Lock()
	if change.GetDelete() != nil {
		delete(o.objects, name)
	} else {
		o.objects[name] = change
	}
	o.mutex.Unlock()
	for _, feed := range o.feeds {
		feed.Send(change)
	}
	return o.flush(ctx)
}

// flush waits for all servers, and keeps the position of the one that reserves.
func (o *orchestrator) flush(ctx context.Context) error {
	for number, feed := range o.feeds {
		position, err := feed.Flush(ctx)
		if err != nil {
			return err
		}
		if number == 0 {
			o.position = position
		}
	}
	return nil
}

// place picks nodes and holds them.
func (o *orchestrator) place(ctx context.Context, replicas int32) ([]*evenkeelv1.Placement, error) {
	answer, err := o.servers[0].Place(ctx, &evenkeelv1.PlaceRequest{
		Snapshot:    snapshot,
		Pod:         pod("", ""),
		Replicas:    replicas,
		MinRevision: o.position.Revision,
		Epoch:       o.position.Epoch,
		Reserve:     &evenkeelv1.Reservation{Owner: "example", Ttl: durationpb.New(time.Minute)},
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, placement := range answer.Placements {
		names = append(names, placement.Node)
	}
	fmt.Println("placed:", strings.Join(names, " "))
	return answer.Placements, nil
}

// start confirms a reservation for a pod, and reports the pod once it runs.
func (o *orchestrator) start(ctx context.Context, name string, placement *evenkeelv1.Placement) error {
	_, err := o.servers[0].ConfirmReservations(ctx, &evenkeelv1.ConfirmReservationsRequest{
		Snapshot: snapshot,
		Confirmations: []*evenkeelv1.Confirmation{
			{Id: placement.ReservationId, Pod: &evenkeelv1.ReservedPod{Name: name}},
		},
	})
	if err != nil {
		return err
	}
	return o.update(ctx, name, evenkeel.Change(pod(name, placement.Node)))
}

// look prints where a pod may and should run. Both questions are asked before
// either is answered, over one stream, which costs less than calls.
func (o *orchestrator) look(ctx context.Context) error {
	decider := evenkeel.NewDecider(o.questions)
	defer decider.Close()
	filter := decider.Filter(ctx, &evenkeelv1.FilterRequest{Snapshot: snapshot, Pod: pod("", "")})
	score := decider.Score(ctx, &evenkeelv1.ScoreRequest{Snapshot: snapshot, Pod: pod("", ""), Top: 1})
	filtered, err := filter.Wait()
	if err != nil {
		return err
	}
	scored, err := score.Wait()
	if err != nil {
		return err
	}
	fmt.Printf("feasible: %d of %d\n", filtered.FeasibleCount, filtered.NodeCount)
	fmt.Println("best:", scored.Scores[0].Node)
	return nil
}

// count prints what is left of the reservations, and pods per zone.
func (o *orchestrator) count(ctx context.Context) error {
	held, err := o.servers[0].ListReservations(ctx, &evenkeelv1.ListReservationsRequest{Snapshot: snapshot})
	if err != nil {
		return err
	}
	fmt.Println("reserved:", len(held.Reservations))
	filtered, err := o.questions.Filter(ctx, &evenkeelv1.FilterRequest{
		Snapshot: snapshot, Pod: pod("", ""), View: evenkeelv1.View_VIEW_DOMAINS})
	if err != nil {
		return err
	}
	domains := filtered.Constraints[0].Domains
	sort.Slice(domains, func(i, j int) bool { return domains[i].Value < domains[j].Value })
	for _, domain := range domains {
		fmt.Printf("%s: %d\n", domain.Value, domain.MatchingPods)
	}
	return nil
}

func (o *orchestrator) run(ctx context.Context) error {
	if err := o.feed(ctx); err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if err := o.look(ctx); err != nil {
		return fmt.Errorf("look: %w", err)
	}
	placements, err := o.place(ctx, 5)
	if err != nil {
		return fmt.Errorf("place: %w", err)
	}
	for number, placement := range placements {
		if err := o.start(ctx, fmt.Sprintf("web-%d", number), placement); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}

	// A pod goes, another comes.
	if err := o.update(ctx, "web-1", evenkeel.Delete("Pod", "shop", "web-1", "")); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	placements, err = o.place(ctx, 1)
	if err != nil {
		return fmt.Errorf("place: %w", err)
	}
	if err := o.start(ctx, "web-5", placements[0]); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return o.count(ctx)
}

// dial connects to the servers that are named.
func dial(servers string) *evenkeel.Client {
	client, err := evenkeel.Dial(servers, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func main() {
	ask := flag.String("ask", "", "`name` of all servers that are ready, such as "+
		"dns:///evenkeel.evenkeel:50051; without it, the servers are asked")
	flag.Parse()
	servers := flag.Args()
	if len(servers) == 0 {
		servers = []string{"localhost:50051"}
	}
	o := orchestrator{
		questions: dial(cmp.Or(*ask, strings.Join(servers, ","))),
		objects:   make(map[string]*evenkeelv1.Change),
	}
	for _, server := range servers {
		o.servers = append(o.servers, dial(server))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := o.run(ctx); err != nil {
		log.Fatal(err)
	}
}
