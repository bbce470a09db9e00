package evenkeel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// A pod spreads over zones. Two nodes are in different zones, and one has a pod.
func Example() {
	ctx := context.Background()
	client, err := evenkeel.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.UpdateSnapshot(ctx, &evenkeelv1.UpdateSnapshotRequest{Snapshot: "first", Changes: []*evenkeelv1.Change{
		evenkeel.Change(node(1)), evenkeel.Change(node(2)), evenkeel.Change(pod("web-0", "node-1"))}})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Filter(ctx, &evenkeelv1.FilterRequest{Snapshot: "first", Pod: pod("web-1", "")})
	fmt.Println(answer.GetFeasible(), err)
	// Output: [node-2] <nil>
}

// A feed lists what the program knows, and is then told of each change.
func ExampleFeed() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := evenkeel.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	feed := evenkeel.NewFeed(client, evenkeel.FeedOptions{
		Snapshot: "fed",
		List: func(context.Context) ([]*evenkeelv1.Change, error) {
			return []*evenkeelv1.Change{evenkeel.Change(node(1)), evenkeel.Change(node(2))}, nil
		},
		OnError: func(err error) { log.Print(err) },
	})
	go func() { _ = feed.Run(ctx) }()
	if _, err := feed.Flush(ctx); err != nil {
		log.Fatal(err)
	}

	feed.Send(evenkeel.Change(pod("web-0", "node-2")))
	position, err := feed.Flush(ctx)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := client.Filter(ctx, &evenkeelv1.FilterRequest{Snapshot: "fed", Pod: pod("web-1", ""),
		MinRevision: position.Revision, Epoch: position.Epoch})
	fmt.Println(answer.GetFeasible(), err)
	// Output: [node-1] <nil>
}

// A decider asks without waiting for each answer.
func ExampleDecider() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := evenkeel.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.UpdateSnapshot(ctx, &evenkeelv1.UpdateSnapshotRequest{Snapshot: "asked", Changes: []*evenkeelv1.Change{
		evenkeel.Change(node(1)), evenkeel.Change(node(2)), evenkeel.Change(pod("web-0", "node-1"))}})
	if err != nil {
		log.Fatal(err)
	}

	decider := evenkeel.NewDecider(client)
	defer decider.Close()
	filtered := decider.Filter(ctx, &evenkeelv1.FilterRequest{Snapshot: "asked", Pod: pod("web-1", "")})
	placed := decider.Place(ctx, &evenkeelv1.PlaceRequest{Snapshot: "asked", Pod: pod("", ""), Replicas: 2,
		Reserve: &evenkeelv1.Reservation{Owner: "example", Ttl: durationpb.New(time.Minute)}})
	filter, err := filtered.Wait()
	fmt.Println(filter.GetFeasible(), err)
	place, err := placed.Wait()
	for _, placement := range place.GetPlacements() {
		fmt.Println(placement.GetNode())
	}
	fmt.Println(err)
	// Output:
	// [node-2] <nil>
	// node-2
	// node-1
	// <nil>
}
