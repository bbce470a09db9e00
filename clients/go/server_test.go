package evenkeel_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"evenkeel.dev/client"
)

// server is a real server, and its address.
type server struct {
	address string
	process *exec.Cmd
}

// address is that of a server which all examples share.
var address string

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())

// start runs the program that $EVENKEEL names, or that `cargo build` has made.
func start(flags ...string) (*server, error) {
	program, err := filepath.Abs(cmp.Or(os.Getenv("EVENKEEL"), "../../target/debug/evenkeel"))
	if err != nil {
		return nil, err
	}
	all := append([]string{"serve", "--log-format", "json", "--drain-pause", "0s"}, flags...)
	process := exec.Command(program, all...)
	process.Env = []string{}
	log, err := process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("the server does not start (build it, or name it in EVENKEEL): %w", err)
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Message, Address string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		if line.Message == "listening" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return &server{address: line.Address, process: process}, nil
		}
	}
	return nil, fmt.Errorf("the server has not started: %w", process.Wait())
}

// kill ends a server at once.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// serve runs a server for a test.
func serve(t *testing.T, flags ...string) *server {
	t.Helper()
	server, err := start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.kill)
	return server
}

// dial connects for a test.
func dial(t *testing.T, servers string) *evenkeel.Client {
	t.Helper()
	client, err := evenkeel.Dial(servers, plaintext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestMain(m *testing.M) {
	server, err := start("--listen", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address = server.address
	code := m.Run()
	server.kill()
	os.Exit(code)
}
