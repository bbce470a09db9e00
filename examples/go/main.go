// A small orchestrator: feeds a cluster, asks where pods may and should run,
// places them with reservations, starts them and confirms.
//
// Each server has its own state, revisions and reservations. So all of them are
// fed, any of them is asked, and one of them reserves.
//
// Nodes and pods are Kubernetes' own types: their bytes are Evenkeel's.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	evenkeel "evenkeel.example/orchestrator/evenkeel/v1"
)

const snapshot = "go"

// Questions go to all servers in turn, and to another one when one is gone. What
// changes something may be repeated only by who knows what came of it, and Place
// because it has a RequestId: the same id gets the same answer.
const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [
      {"service": "evenkeel.v1.SpreadService", "method": "Filter"},
      {"service": "evenkeel.v1.SpreadService", "method": "Score"},
      {"service": "evenkeel.v1.SpreadService", "method": "Place"}
    ],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "2s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
}`

// wire is a type of k8s.io/api, such as *corev1.Pod.
type wire interface{ Marshal() ([]byte, error) }

// convert reads the bytes of an object of Kubernetes as one of Evenkeel, which
// skips the fields that decisions do not read.
func convert[T proto.Message](object wire, into T) T {
	bytes, err := object.Marshal()
	if err == nil {
		err = proto.Unmarshal(bytes, into)
	}
	if err != nil {
		log.Fatalf("convert %T: %v", object, err)
	}
	return into
}

func node(name, zone string) *evenkeel.Node {
	labels := map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}
	return convert(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, &evenkeel.Node{})
}

func pod(name, nodeName string) *evenkeel.Pod {
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
	}, &evenkeel.Pod{})
}

type orchestrator struct {
	// servers are fed, each at its own address. The first one reserves.
	servers []evenkeel.SpreadServiceClient
	// questions goes to any server that is ready.
	questions evenkeel.SpreadServiceClient
	// revision of the first server. The others count their own.
	revision int64
}

// replace puts these changes in the place of a server's snapshot.
func replace(ctx context.Context, server evenkeel.SpreadServiceClient, changes []*evenkeel.Change) (int64, error) {
	stream, err := server.StreamSnapshot(ctx)
	if err != nil {
		return 0, err
	}
	var revision int64
	for _, step := range []*evenkeel.StreamSnapshotRequest{
		{Step: &evenkeel.StreamSnapshotRequest_BeginReplace{
			BeginReplace: &evenkeel.BeginReplace{Snapshot: snapshot}}},
		{Step: &evenkeel.StreamSnapshotRequest_Update{
			Update: &evenkeel.UpdateSnapshotRequest{Snapshot: snapshot, Changes: changes}}},
		{Step: &evenkeel.StreamSnapshotRequest_CommitReplace{
			CommitReplace: &evenkeel.CommitReplace{Snapshot: snapshot}}},
	} {
		if err := stream.Send(step); err != nil {
			return 0, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		revision = answer.GetUpdate().GetRevision()
	}
	return revision, stream.CloseSend()
}

// feed replaces the snapshot of each server by the whole cluster.
func (o *orchestrator) feed(ctx context.Context) error {
	var changes []*evenkeel.Change
	for _, zone := range []string{"a", "b", "c"} {
		for _, number := range []string{"1", "2"} {
			object := node("node-"+zone+number, "zone-"+zone)
			changes = append(changes, &evenkeel.Change{Object: &evenkeel.Change_Node{Node: object}})
		}
	}
	return o.each(func(server evenkeel.SpreadServiceClient) (int64, error) {
		return replace(ctx, server, changes)
	})
}

// update returns once every server has applied a change. From then on all of
// them answer alike, so questions need no MinRevision.
func (o *orchestrator) update(ctx context.Context, change *evenkeel.Change) error {
	return o.each(func(server evenkeel.SpreadServiceClient) (int64, error) {
		answer, err := server.UpdateSnapshot(ctx, &evenkeel.UpdateSnapshotRequest{
			Snapshot: snapshot,
			Changes:  []*evenkeel.Change{change},
		})
		return answer.GetRevision(), err
	})
}

// each feeds all servers, and keeps the revision of the one that reserves.
func (o *orchestrator) each(feed func(evenkeel.SpreadServiceClient) (int64, error)) error {
	for number, server := range o.servers {
		revision, err := feed(server)
		if err != nil {
			return err
		}
		if number == 0 {
			o.revision = revision
		}
	}
	return nil
}

// place picks nodes and holds them.
func (o *orchestrator) place(ctx context.Context, replicas int32) ([]*evenkeel.Placement, error) {
	answer, err := o.servers[0].Place(ctx, &evenkeel.PlaceRequest{
		Snapshot:    snapshot,
		Pod:         pod("", ""),
		Replicas:    replicas,
		MinRevision: o.revision,
		RequestId:   rand.Text(),
		Reserve:     &evenkeel.Reservation{Owner: "example", Ttl: durationpb.New(time.Minute)},
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
func (o *orchestrator) start(ctx context.Context, name string, placement *evenkeel.Placement) error {
	_, err := o.servers[0].ConfirmReservations(ctx, &evenkeel.ConfirmReservationsRequest{
		Snapshot: snapshot,
		Confirmations: []*evenkeel.Confirmation{
			{Id: placement.ReservationId, Pod: &evenkeel.ReservedPod{Name: name}},
		},
	})
	if err != nil {
		return err
	}
	running := pod(name, placement.Node)
	return o.update(ctx, &evenkeel.Change{Object: &evenkeel.Change_Pod{Pod: running}})
}

// ask asks over one stream, which costs less than calls. It returns the answers by
// id: they come in the order of completion. A program that asks often keeps its
// stream open, and asks anew what was not answered when a stream ends.
func (o *orchestrator) ask(ctx context.Context, questions ...*evenkeel.Question) (map[uint64]*evenkeel.DecideResponse, error) {
	stream, err := o.questions.Decide(ctx)
	if err != nil {
		return nil, err
	}
	for _, question := range questions {
		step := &evenkeel.DecideRequest{Step: &evenkeel.DecideRequest_Question{Question: question}}
		if err := stream.Send(step); err != nil {
			break // Recv tells why.
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	answers := make(map[uint64]*evenkeel.DecideResponse)
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answers, nil
		}
		if err != nil {
			return nil, err
		}
		if refused := answer.GetError(); refused != nil {
			return nil, errors.New(refused.Message)
		}
		answers[answer.Id] = answer
	}
}

// look prints where a pod may and should run.
func (o *orchestrator) look(ctx context.Context) error {
	answers, err := o.ask(ctx,
		&evenkeel.Question{Id: 1, Ask: &evenkeel.Question_Filter{
			Filter: &evenkeel.FilterRequest{Snapshot: snapshot, Pod: pod("", "")}}},
		&evenkeel.Question{Id: 2, Ask: &evenkeel.Question_Score{
			Score: &evenkeel.ScoreRequest{Snapshot: snapshot, Pod: pod("", ""), Top: 1}}})
	if err != nil {
		return err
	}
	filtered, scored := answers[1].GetFilter(), answers[2].GetScore()
	fmt.Printf("feasible: %d of %d\n", filtered.FeasibleCount, filtered.NodeCount)
	fmt.Println("best:", scored.Scores[0].Node)
	return nil
}

// count prints what is left of the reservations, and pods per zone.
func (o *orchestrator) count(ctx context.Context) error {
	held, err := o.servers[0].ListReservations(ctx, &evenkeel.ListReservationsRequest{Snapshot: snapshot})
	if err != nil {
		return err
	}
	fmt.Println("reserved:", len(held.Reservations))
	filtered, err := o.questions.Filter(ctx, &evenkeel.FilterRequest{
		Snapshot: snapshot, Pod: pod("", ""), View: evenkeel.View_VIEW_DOMAINS})
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
	gone := &evenkeel.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1"}
	if err := o.update(ctx, &evenkeel.Change{Object: &evenkeel.Change_Delete{Delete: gone}}); err != nil {
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

// client calls the servers that a target names.
func client(target string, options ...grpc.DialOption) evenkeel.SpreadServiceClient {
	connection, err := grpc.NewClient(target, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig))...)
	if err != nil {
		log.Fatal(err)
	}
	return evenkeel.NewSpreadServiceClient(connection)
}

// questions calls any server: those of a name, or these addresses.
func questions(servers []string, name string) evenkeel.SpreadServiceClient {
	if name != "" {
		return client(name)
	}
	listed := manual.NewBuilderWithScheme("listed")
	var state resolver.State
	for _, server := range servers {
		address := resolver.Address{Addr: server}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	listed.InitialState(state)
	return client("listed:///evenkeel", grpc.WithResolvers(listed))
}

func main() {
	ask := flag.String("ask", "", "`name` of all servers that are ready, such as "+
		"dns:///evenkeel.evenkeel:50051; without it, the servers are asked")
	flag.Parse()
	servers := flag.Args()
	if len(servers) == 0 {
		servers = []string{"localhost:50051"}
	}
	o := orchestrator{questions: questions(servers, *ask)}
	for _, server := range servers {
		o.servers = append(o.servers, client("dns:///"+server))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := o.run(ctx); err != nil {
		log.Fatal(err)
	}
}
