package evenkeel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// truth is what a feed has to make of a snapshot.
type truth struct {
	mutex sync.Mutex
	pods  map[string]string
	lists int
	// others are in the list too.
	others []*evenkeelv1.Change
}

func (s *truth) list(context.Context) ([]*evenkeelv1.Change, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lists++
	var changes []*evenkeelv1.Change
	for number := range 3 {
		changes = append(changes, evenkeel.Change(node(number)))
	}
	changes = append(changes, s.others...)
	for name, on := range s.pods {
		changes = append(changes, evenkeel.Change(pod(name, on)))
	}
	return changes, nil
}

// change changes the truth, and gives the change to a feed.
func (s *truth) change(feed *evenkeel.Feed, random *rand.Rand) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := fmt.Sprintf("pod-%d", random.IntN(40))
	if random.IntN(3) == 0 {
		delete(s.pods, name)
		feed.Send(evenkeel.Delete("Pod", "shop", name, ""))
		return
	}
	s.pods[name] = fmt.Sprintf("node-%d", random.IntN(3))
	feed.Send(evenkeel.Change(pod(name, s.pods[name])))
}

func (s *truth) wanted() map[string]string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	wanted := map[string]string{"node-0": "", "node-1": "", "node-2": ""}
	maps.Copy(wanted, s.pods)
	return wanted
}

func (s *truth) listed() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.lists
}

// stage is a server, a client and a feed of it.
type stage struct {
	t      *testing.T
	flags  []string
	server *server
	client *evenkeel.Client
	feed   *evenkeel.Feed
	truth  *truth
}

// restart kills the server, and runs another one at the same address.
func (s *stage) restart() {
	s.server.kill()
	s.server = serve(s.t, append(s.flags, "--listen", s.server.address)...)
}

// goBack runs the server on a whole copy of its directory that lacks the last changes.
func (s *stage) goBack() {
	directory, copied := s.flags[1], filepath.Join(s.t.TempDir(), "copy")
	s.server.kill()
	if err := os.CopyFS(copied, os.DirFS(directory)); err != nil {
		s.t.Fatal(err)
	}
	s.restart()
	s.truth.change(s.feed, rand.New(rand.NewPCG(1, 0)))
	if _, err := s.feed.Flush(limited(s.t)); err != nil {
		s.t.Fatal(err)
	}
	s.server.kill()
	if err := errors.Join(os.RemoveAll(directory), os.Rename(copied, directory)); err != nil {
		s.t.Fatal(err)
	}
	s.restart()
}

func invalid() *evenkeelv1.Change { return evenkeel.Change(pod("Not a name", "")) }

func TestFeed(t *testing.T) {
	stored := func(t *testing.T) []string { return []string{"--state-dir", t.TempDir()} }
	for name, test := range map[string]struct {
		flags func(*testing.T) []string
		// happen is what happens while changes are sent.
		happen func(*stage)
		// lists is how often the state has to be listed.
		lists int
		// refused is how many changes the server refuses.
		refused int
	}{
		"nothing":         {happen: func(*stage) {}, lists: 1},
		"state lost":      {happen: (*stage).restart, lists: 2},
		"state stored":    {flags: stored, happen: (*stage).restart, lists: 1},
		"state goes back": {flags: stored, happen: (*stage).goBack, lists: 2},
		"snapshot deleted": {happen: func(s *stage) {
			_, err := s.client.DeleteSnapshot(limited(s.t), &evenkeelv1.DeleteSnapshotRequest{Snapshot: "fed"})
			if err != nil {
				s.t.Fatal(err)
			}
		}, lists: 2},
		"invalid object": {happen: func(s *stage) { s.feed.Send(invalid()) }, lists: 1, refused: 1},
		"invalid in list": {happen: func(s *stage) {
			s.truth.mutex.Lock()
			s.truth.others = append(s.truth.others, invalid())
			s.truth.mutex.Unlock()
			s.restart()
		}, lists: 2, refused: 1},
		"too many changes": {happen: func(s *stage) {
			many := make([]*evenkeelv1.Change, 100_001)
			for number := range many {
				many[number] = evenkeel.Delete("Pod", "shop", "gone", "")
			}
			s.feed.Send(many...)
		}, lists: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, truth: &truth{pods: make(map[string]string)}}
			if test.flags != nil {
				s.flags = test.flags(t)
			}
			s.server = serve(t, append(s.flags, "--listen", "127.0.0.1:0")...)
			s.client = dial(t, s.server.address)
			var mutex sync.Mutex
			refused := 0
			s.feed = evenkeel.NewFeed(s.client, evenkeel.FeedOptions{
				Snapshot:  "fed",
				List:      s.truth.list,
				Heartbeat: 50 * time.Millisecond,
				OnRefused: func(*evenkeelv1.Change, error) { mutex.Lock(); refused++; mutex.Unlock() },
			})
			running, stop := context.WithCancel(context.Background())
			var ended sync.WaitGroup
			ended.Go(func() { _ = s.feed.Run(running) })
			t.Cleanup(func() { stop(); ended.Wait() })

			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			flush := func() evenkeel.Position {
				t.Helper()
				position, err := s.feed.Flush(limited(t))
				if err != nil {
					t.Fatal(err)
				}
				return position
			}
			flush()
			for number := range 300 {
				if number == 150 {
					test.happen(s)
				}
				s.truth.change(s.feed, random)
				if random.IntN(20) == 0 {
					flush()
				}
			}
			// What was deleted or lost after it was acknowledged is noticed by a heartbeat.
			deadline := time.Now().Add(30 * time.Second)
			for {
				position := flush()
				held := exported(t, s.client, "fed")
				if maps.Equal(held, s.truth.wanted()) && s.truth.listed() >= test.lists {
					asked := &evenkeelv1.FilterRequest{Snapshot: "fed", Pod: pod("", ""),
						MinRevision: position.Revision, Epoch: position.Epoch}
					if _, err := s.client.Filter(limited(t), asked); err != nil {
						t.Error(err)
					}
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("held %v, wanted %v", held, s.truth.wanted())
				}
				time.Sleep(20 * time.Millisecond)
			}
			if lists := s.truth.listed(); lists != test.lists {
				t.Errorf("listed %d times, wanted %d", lists, test.lists)
			}
			mutex.Lock()
			defer mutex.Unlock()
			if refused != test.refused {
				t.Errorf("refused %d changes, wanted %d", refused, test.refused)
			}
		})
	}
}

// What a feed without functions of its own leaves out is logged.
func TestRefusedIsLogged(t *testing.T) {
	var logged lockedBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	server := serve(t, "--listen", "127.0.0.1:0")
	list := func(context.Context) ([]*evenkeelv1.Change, error) { return nil, nil }
	feed := evenkeel.NewFeed(dial(t, server.address), evenkeel.FeedOptions{List: list})
	running, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = feed.Run(running) })
	t.Cleanup(func() { stop(); ended.Wait() })
	for range 2 {
		if _, err := feed.Flush(limited(t)); err != nil {
			t.Fatal(err)
		}
		feed.Send(invalid())
	}
	said := func() bool {
		text := logged.String()
		return strings.Contains(text, "leaves out what the server refuses") && strings.Contains(text, "kind=Pod")
	}
	// The change is left out before it is logged.
	for deadline := time.Now().Add(10 * time.Second); !said(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(logged.String())
		}
	}
}

// lockedBuffer is written by a feed while a test reads it.
type lockedBuffer struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (b *lockedBuffer) Write(bytes []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(bytes)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
