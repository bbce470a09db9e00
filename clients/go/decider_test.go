package evenkeel_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// fill replaces a snapshot by six nodes and a pod.
func fill(t *testing.T, client *evenkeel.Client, snapshot string) {
	t.Helper()
	changes := []*evenkeelv1.Change{evenkeel.Change(pod("web-0", "node-0"))}
	for number := range 6 {
		changes = append(changes, evenkeel.Change(node(number)))
	}
	_, err := client.UpdateSnapshot(limited(t), &evenkeelv1.UpdateSnapshotRequest{
		Snapshot: snapshot, Changes: changes, Mode: evenkeelv1.Mode_MODE_REPLACE})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeciderAnswersAsCalls(t *testing.T) {
	client := dial(t, address)
	fill(t, client, t.Name())
	decider := evenkeel.NewDecider(client)
	defer decider.Close()
	ctx := limited(t)
	filter := &evenkeelv1.FilterRequest{Snapshot: t.Name(), Pod: pod("", "")}
	score := &evenkeelv1.ScoreRequest{Snapshot: t.Name(), Pod: pod("", "")}
	place := &evenkeelv1.PlaceRequest{Snapshot: t.Name(), Pod: pod("", ""), Replicas: 2}
	filtered, err := client.Filter(ctx, filter)
	if err != nil || filtered.GetFeasibleCount() != 4 {
		t.Fatal(filtered, err)
	}
	scored, _ := client.Score(ctx, score)
	placed, _ := client.Place(ctx, place)

	// More than a server takes unanswered at once.
	var filters []*evenkeel.Future[*evenkeelv1.FilterResponse]
	for range 1000 {
		filters = append(filters, decider.Filter(ctx, filter))
	}
	same := func(answer, wanted proto.Message, err error) {
		t.Helper()
		if err != nil || !proto.Equal(answer, wanted) {
			t.Fatalf("answer %v, error %v", answer, err)
		}
	}
	for _, future := range filters {
		answer, err := future.Wait()
		same(answer, filtered, err)
	}
	scoredAlike, err := decider.Score(ctx, score).Wait()
	same(scoredAlike, scored, err)
	placedAlike, err := decider.Place(ctx, place).Wait()
	same(placedAlike, placed, err)
}

func TestDeciderErrors(t *testing.T) {
	client := dial(t, address)
	fill(t, client, t.Name())
	decider := evenkeel.NewDecider(client)
	late := &evenkeelv1.FilterRequest{Snapshot: t.Name(), Pod: pod("", ""), MinRevision: 1 << 40}

	ended, end := context.WithCancel(limited(t))
	waiting := decider.Filter(ended, late)
	end()
	if _, err := waiting.Wait(); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	// The answer to a question that nobody waits for is not taken for another one.
	asked := &evenkeelv1.FilterRequest{Snapshot: t.Name(), Pod: pod("", "")}
	if _, err := decider.Filter(limited(t), asked).Wait(); err != nil {
		t.Error(err)
	}
	_, err := decider.Filter(limited(t), &evenkeelv1.FilterRequest{Snapshot: t.Name()}).Wait()
	answered := status.Convert(err)
	if answered.Code() != codes.InvalidArgument || len(answered.Details()) == 0 {
		t.Error(answered)
	}
	var reason string
	for _, detail := range answered.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	if reason != "INVALID_REQUEST" {
		t.Error(answered.Details())
	}

	open := decider.Filter(limited(t), late)
	decider.Close()
	if _, err := open.Wait(); !errors.Is(err, evenkeel.ErrClosed) {
		t.Error(err)
	}
	if _, err := decider.Filter(limited(t), late).Wait(); !errors.Is(err, evenkeel.ErrClosed) {
		t.Error(err)
	}
}

func TestDeciderGoesToAnotherServer(t *testing.T) {
	first, second := serve(t, "--listen", "127.0.0.1:0"), serve(t, "--listen", "127.0.0.1:0")
	for _, server := range []*server{first, second} {
		fill(t, dial(t, server.address), "default")
	}
	decider := evenkeel.NewDecider(dial(t, first.address+","+second.address))
	defer decider.Close()
	ctx := limited(t)
	var open []*evenkeel.Future[*evenkeelv1.FilterResponse]
	for number := range 200 {
		if number == 100 {
			first.kill()
		}
		open = append(open, decider.Filter(ctx, &evenkeelv1.FilterRequest{Pod: pod("", "")}))
		if number%10 != 0 {
			continue
		}
		for _, future := range open {
			if answer, err := future.Wait(); err != nil || answer.GetFeasibleCount() != 4 {
				t.Fatal(answer, err)
			}
		}
		open = nil
	}
	second.kill()
	_, err := decider.Filter(ctx, &evenkeelv1.FilterRequest{Pod: pod("", "")}).Wait()
	if status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
}
