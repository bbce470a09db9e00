package spread

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// fake answers as Evenkeel does, what a test tells it. Nodes that are not refused pass.
type fake struct {
	evenkeelv1.UnimplementedSpreadServiceServer
	mutex           sync.Mutex
	epoch           string
	revision, order int64
	nodes           []string
	refused         map[string]evenkeelv1.Code
	scores          map[string]int32
	defaults        evenkeelv1.DefaultsKind
	// read is how far the feed has read its cluster.
	read map[string]uint64
	// Instead of an answer.
	fault codes.Code
	slow  time.Duration

	filters  []*evenkeelv1.FilterRequest
	lists    int
	reserved map[string]string
	released []string
	steps    []string
}

func serve(t testing.TB, address string) (*fake, string, func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{
		epoch: "first", revision: 5, order: 5, nodes: []string{"a1", "a2", "b1"},
		refused: map[string]evenkeelv1.Code{}, reserved: map[string]string{},
		defaults: evenkeelv1.DefaultsKind_DEFAULTS_KIND_SYSTEM, read: map[string]uint64{},
	}
	server := grpc.NewServer()
	evenkeelv1.RegisterSpreadServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return f, listener.Addr().String(), server.Stop
}

// set changes what is answered.
func (f *fake) set(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}

// check refuses what a test wants refused, and revisions of other epochs.
func (f *fake) check(epoch string, revision int64) error {
	switch {
	case f.fault != codes.OK:
		return status.Error(f.fault, "as the test says")
	case epoch != "" && epoch != f.epoch:
		return status.Error(codes.Aborted, "another epoch")
	case revision > f.revision:
		return status.Error(codes.DeadlineExceeded, "behind")
	}
	return nil
}

func (f *fake) Decide(stream grpc.BidiStreamingServer[evenkeelv1.DecideRequest, evenkeelv1.DecideResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		asked := request.GetQuestion()
		if asked == nil {
			continue
		}
		f.mutex.Lock()
		slow := f.slow
		answer := &evenkeelv1.DecideResponse{Id: asked.GetId()}
		filter, score := asked.GetFilter(), asked.GetScore()
		err = f.check(filter.GetEpoch()+score.GetEpoch(), max(filter.GetMinRevision(), score.GetMinRevision()))
		for _, wanted := range []map[string]uint64{filter.GetMinResourceVersions(), score.GetMinResourceVersions()} {
			for kind, version := range wanted {
				if version > f.read[kind] {
					err = status.Error(codes.FailedPrecondition, kind)
				}
			}
		}
		switch {
		case err != nil:
			answer.Answer = &evenkeelv1.DecideResponse_Error{Error: status.New(status.Code(err), "").Proto()}
		case filter != nil:
			answer.Answer = &evenkeelv1.DecideResponse_Filter{Filter: f.filter(filter)}
		default:
			answer.Answer = &evenkeelv1.DecideResponse_Score{Score: f.score(score)}
		}
		f.mutex.Unlock()
		select {
		case <-time.After(slow):
		case <-stream.Context().Done():
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (f *fake) filter(request *evenkeelv1.FilterRequest) *evenkeelv1.FilterResponse {
	f.steps = append(f.steps, "filter")
	f.filters = append(f.filters, request)
	answer := &evenkeelv1.FilterResponse{
		Revision: f.revision, Epoch: f.epoch, NodeOrderRevision: f.order,
		NodeCount: int64(len(f.nodes)), FeasibleBitmap: make([]byte, (len(f.nodes)+7)/8),
	}
	for number, node := range f.nodes {
		code, isRefused := f.refused[node]
		asked := request.GetCandidates() == nil || slices.Contains(request.GetCandidates().GetNames(), node)
		switch {
		case !isRefused:
			answer.FeasibleBitmap[number/8] |= 1 << (number % 8)
		case asked && request.GetView() == evenkeelv1.View_VIEW_FULL:
			answer.Infeasible = append(answer.Infeasible, &evenkeelv1.NodeVerdict{Node: node, Code: code})
		}
	}
	return answer
}

func (f *fake) score(request *evenkeelv1.ScoreRequest) *evenkeelv1.ScoreResponse {
	f.steps = append(f.steps, "score")
	answer := &evenkeelv1.ScoreResponse{
		Revision: f.revision, Epoch: f.epoch, Defaults: f.defaults,
		Skipped: f.scores == nil,
	}
	for _, name := range request.GetCandidates().GetNames() {
		if score, known := f.scores[name]; known {
			answer.PackedScores = append(answer.PackedScores, score)
		} else {
			answer.UnknownCandidates = append(answer.UnknownCandidates, name)
		}
	}
	return answer
}

func (f *fake) ListNodes(_ context.Context, request *evenkeelv1.ListNodesRequest) (*evenkeelv1.ListNodesResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.lists++
	// Pages of two.
	from, _ := strconv.Atoi(request.GetPageToken())
	to := min(from+2, len(f.nodes))
	answer := &evenkeelv1.ListNodesResponse{
		Revision: f.revision, Epoch: f.epoch, NodeOrderRevision: f.order, Names: f.nodes[from:to],
	}
	if to < len(f.nodes) {
		answer.NextPageToken = strconv.Itoa(to)
	}
	return answer, f.check(request.GetEpoch(), request.GetMinRevision())
}

func (f *fake) ReservePods(_ context.Context, request *evenkeelv1.ReservePodsRequest) (*evenkeelv1.ReservePodsResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if err := f.check("", 0); err != nil {
		return nil, err
	}
	for _, pod := range request.GetPods() {
		if pod.GetPod().GetMetadata().GetName() == "bad" {
			return nil, status.Error(codes.InvalidArgument, "as the test says")
		}
	}
	f.steps = append(f.steps, "reserve")
	f.revision++
	answer := &evenkeelv1.ReservePodsResponse{Revision: f.revision, Epoch: f.epoch}
	for _, pod := range request.GetPods() {
		f.reserved[pod.GetPod().GetMetadata().GetName()] = pod.GetNode()
		answer.ReservationIds = append(answer.ReservationIds, f.epoch+"-"+pod.GetPod().GetMetadata().GetName())
	}
	return answer, nil
}

func (f *fake) ReleaseReservations(_ context.Context, request *evenkeelv1.ReleaseReservationsRequest) (*evenkeelv1.ReleaseReservationsResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if err := f.check("", 0); err != nil {
		return nil, err
	}
	f.revision++
	f.released = append(f.released, request.GetIds()...)
	return &evenkeelv1.ReleaseReservationsResponse{Revision: f.revision, Epoch: f.epoch}, nil
}
