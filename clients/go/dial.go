package evenkeel

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// serviceConfig spreads calls over all servers, and repeats those at another server when one
// is gone that only read or may come again.
//
//go:embed service_config.json
var serviceConfig string

// Client calls the servers that were dialed. It may be used by several goroutines.
type Client struct {
	evenkeelv1.SpreadServiceClient
	connection *grpc.ClientConn
}

// Dial returns a client of a server, such as "localhost:50051", of several, separated by commas,
// or of all addresses of a name, such as "dns:///evenkeel.evenkeel:50051". It does not wait
// for a connection. Options must say how connections are secured, by
// [grpc.WithTransportCredentials].
//
// Calls go to the servers in turn. A call that ends with UNAVAILABLE is sent again, up to
// three times, if it only reads. So are ReservePods and Place: where that reserves and has no
// request id it is given one, so that nothing is reserved twice. Other calls are not repeated.
//
// Servers without a common log have states of their own: feed and reserve at each by a client
// of its own.
func Dial(servers string, options ...grpc.DialOption) (*Client, error) {
	target := servers
	own := []grpc.DialOption{
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithChainUnaryInterceptor(identifyPlace),
	}
	if strings.Contains(servers, ",") {
		listed, err := listServers(strings.Split(servers, ","))
		if err != nil {
			return nil, err
		}
		target = listed.Scheme() + ":///servers"
		own = append(own, grpc.WithResolvers(listed))
	}
	connection, err := grpc.NewClient(target, append(own, options...)...)
	if err != nil {
		return nil, err
	}
	return &Client{SpreadServiceClient: evenkeelv1.NewSpreadServiceClient(connection), connection: connection}, nil
}

// Close ends the connections. Calls under way are cancelled.
func (c *Client) Close() error { return c.connection.Close() }

func listServers(servers []string) (*manual.Resolver, error) {
	var state resolver.State
	for _, server := range servers {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", server, err)
		}
		address := resolver.Address{Addr: server, ServerName: host}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	listed := manual.NewBuilderWithScheme("evenkeel-servers")
	listed.InitialState(state)
	return listed, nil
}

// identifyPlace gives a Place that reserves an id, under which it can be sent again.
func identifyPlace(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if place, ok := request.(*evenkeelv1.PlaceRequest); ok {
		request = identified(place)
	}
	return invoke(ctx, method, request, answer, connection, options...)
}

func identified(place *evenkeelv1.PlaceRequest) *evenkeelv1.PlaceRequest {
	if place.GetReserve() == nil || place.GetRequestId() != "" {
		return place
	}
	place = proto.CloneOf(place)
	place.RequestId = rand.Text()
	return place
}

// TokenFile identifies the caller by the token in a file, which is read for each call: it may
// be replaced at any time. Tokens are sent only over TLS.
func TokenFile(path string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(tokenFile(path))
}

type tokenFile string

var _ credentials.PerRPCCredentials = tokenFile("")

func (path tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := os.ReadFile(string(path))
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}, nil
}

func (tokenFile) RequireTransportSecurity() bool { return true }
