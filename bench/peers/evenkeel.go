package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// server is an Evenkeel server that holds the same cluster.
type server struct {
	pid     int
	clients []evenkeelv1.SpreadServiceClient
}

func connect(address string, pid, connections int) (*server, error) {
	s := &server{pid: pid}
	for range connections {
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, evenkeelv1.NewSpreadServiceClient(connection))
	}
	return s, nil
}

// call asks a question about all nodes. The answer has a bit or a score for each
// node, and of the report the first domain only, because the plugin has none.
type call func(context.Context, evenkeelv1.SpreadServiceClient) (answer, error)

type answer interface {
	GetRevision() int64
	proto.Message
}

func newCall(pod *evenkeelv1.Pod, isHard bool) call {
	view, domains := evenkeelv1.View_VIEW_BITMAP, proto.Int32(1)
	if isHard {
		request := &evenkeelv1.FilterRequest{Pod: pod, View: view, MaxDomains: domains}
		return func(ctx context.Context, client evenkeelv1.SpreadServiceClient) (answer, error) {
			return client.Filter(ctx, request)
		}
	}
	request := &evenkeelv1.ScoreRequest{Pod: pod, View: view, MaxDomains: domains}
	return func(ctx context.Context, client evenkeelv1.SpreadServiceClient) (answer, error) {
		return client.Score(ctx, request)
	}
}

// decisionOf is what an answer says about each node.
func decisionOf(said answer, nodes int) (decision, error) {
	decided := make(decision, nodes)
	switch said := said.(type) {
	case *evenkeelv1.FilterResponse:
		for i := range decided {
			decided[i] = int64(bit(said.FeasibleBitmap, i))
		}
	case *evenkeelv1.ScoreResponse:
		if len(said.PackedScores) != nodes {
			return nil, fmt.Errorf("%d of %d nodes have a score", len(said.PackedScores), nodes)
		}
		for i, score := range said.PackedScores {
			decided[i] = int64(score)
		}
	}
	return decided, nil
}

// bit i of a bitmap, which may end behind its last bit that is set.
func bit(bitmap []byte, i int) byte {
	if i/8 >= len(bitmap) {
		return 0
	}
	return bitmap[i/8] >> (i % 8) & 1
}

// load asks these questions in turn, atOnce of them at a time, for as long as
// duration. It fails when an answer is about another revision.
func (s *server) load(ctx context.Context, calls []call, revision int64, atOnce int, duration time.Duration) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	until := time.Now().Add(duration)
	var next atomic.Int64
	var callers sync.WaitGroup
	for caller := range atOnce {
		client := s.clients[caller%len(s.clients)]
		callers.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				said, err := calls[(next.Add(1)-1)%int64(len(calls))](ctx, client)
				if err == nil && said.GetRevision() != revision {
					err = fmt.Errorf("the snapshot changed: revision %d", said.GetRevision())
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	callers.Wait()
	return next.Load(), context.Cause(ctx)
}
