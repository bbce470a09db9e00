package evenkeel_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// failing refuses every call with a code, and counts them.
type failing struct {
	evenkeelv1.UnimplementedSpreadServiceServer
	code  codes.Code
	mutex sync.Mutex
	calls int
	ids   []string
}

func (s *failing) fail(_ context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.calls++
	if place, ok := request.(*evenkeelv1.PlaceRequest); ok {
		s.ids = append(s.ids, place.GetRequestId())
	}
	return nil, status.Error(s.code, "refused")
}

// refusing runs a server that refuses.
func refusing(t *testing.T, code codes.Code) (*failing, *evenkeel.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake := &failing{code: code}
	server := grpc.NewServer(grpc.UnaryInterceptor(fake.fail))
	evenkeelv1.RegisterSpreadServiceServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return fake, dial(t, listener.Addr().String())
}

func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
	filter := func(ctx context.Context, client *evenkeel.Client) error {
		_, err := client.Filter(ctx, &evenkeelv1.FilterRequest{})
		return err
	}
	for name, test := range map[string]struct {
		code  codes.Code
		call  func(context.Context, *evenkeel.Client) error
		calls int
	}{
		"read":             {codes.Unavailable, filter, 4},
		"invalid":          {codes.InvalidArgument, filter, 1},
		"not synced":       {codes.FailedPrecondition, filter, 1},
		"over a limit":     {codes.ResourceExhausted, filter, 1},
		"late":             {codes.DeadlineExceeded, filter, 1},
		"another revision": {codes.Aborted, filter, 1},
		"a bug":            {codes.Internal, filter, 1},
		"change": {codes.Unavailable, func(ctx context.Context, client *evenkeel.Client) error {
			_, err := client.UpdateSnapshot(ctx, &evenkeelv1.UpdateSnapshotRequest{})
			return err
		}, 1},
		"confirm": {codes.Unavailable, func(ctx context.Context, client *evenkeel.Client) error {
			_, err := client.ConfirmReservations(ctx, &evenkeelv1.ConfirmReservationsRequest{})
			return err
		}, 1},
		"delete": {codes.Unavailable, func(ctx context.Context, client *evenkeel.Client) error {
			_, err := client.DeleteSnapshot(ctx, &evenkeelv1.DeleteSnapshotRequest{})
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, client := refusing(t, test.code)
			if err := test.call(limited(t), client); status.Code(err) != test.code {
				t.Error(err)
			}
			if fake.calls != test.calls {
				t.Errorf("called %d times, wanted %d", fake.calls, test.calls)
			}
		})
	}
}

func TestPlaceIsRepeatedUnderOneId(t *testing.T) {
	fake, client := refusing(t, codes.Unavailable)
	for _, request := range []*evenkeelv1.PlaceRequest{
		{Reserve: &evenkeelv1.Reservation{}},
		{Reserve: &evenkeelv1.Reservation{}, RequestId: "mine"},
		{},
	} {
		given := request.GetRequestId()
		_, _ = client.Place(limited(t), request)
		ids := fake.ids
		fake.ids = nil
		if len(ids) != 4 || len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Error(ids)
		}
		if request.GetRequestId() != given || (ids[0] == "") != (request.GetReserve() == nil) {
			t.Error(request, ids)
		}
		if given != "" && ids[0] != given {
			t.Error(ids)
		}
	}
}

func TestTokensAreOnlySentOverTLS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := evenkeel.Dial(address, plaintext, evenkeel.TokenFile(path))
	if err == nil {
		_ = client.Close()
		t.Error("a token would be sent for all to read")
	}
}

func TestServersAreAddresses(t *testing.T) {
	if _, err := evenkeel.Dial("127.0.0.1:1,elsewhere", plaintext); err == nil {
		t.Error("a server without a port was dialed")
	}
}

// marshalled has the bytes of an object of k8s.io/api.
type marshalled []byte

func (m marshalled) Marshal() ([]byte, error) { return m, nil }

func TestConvertLeavesOutWhatIsNotRead(t *testing.T) {
	wanted := pod("web-0", "node-0")
	bytes, err := proto.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	bytes = protowire.AppendTag(bytes, 1000, protowire.BytesType)
	bytes = protowire.AppendBytes(bytes, make([]byte, 100))
	read, err := evenkeel.Convert(marshalled(bytes), &evenkeelv1.Pod{})
	if err != nil || !proto.Equal(read, wanted) {
		t.Error(read, err)
	}
	if _, err := evenkeel.Convert(marshalled("\xff"), &evenkeelv1.Pod{}); err == nil {
		t.Error("no error for bytes that are no pod")
	}
}
