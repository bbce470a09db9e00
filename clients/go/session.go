package evenkeel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	evenkeelv1 "evenkeel.dev/client/v1"
)

var (
	errRefused  = errors.New("changes are left out that the server refuses")
	errOverflow = errors.New("more changes wait than are kept: the state is listed again")
	errEpoch    = errors.New("the snapshot has another epoch: the state is listed again")
	errBehind   = errors.New("the server is behind what it acknowledged: the state is listed again")
	errSilent   = errors.New("the server does not acknowledge what is sent")
)

// session is one stream of a feed.
type session struct {
	feed   *Feed
	stream evenkeelv1.SpreadService_StreamSnapshotClient
	ctx    context.Context
	// answers has what the server says, in order.
	answers chan *evenkeelv1.UpdateSnapshotResponse
	// ended has why the stream ended, once.
	ended chan error
	// steps has how many changes each step has that is not acknowledged.
	steps []int
	// late ends the session when an acknowledgement does not come.
	late *time.Timer
}

// session connects and feeds until something breaks. What is listed is kept in `list` until
// the server has it.
func (f *Feed) session(ctx context.Context, list *listing, pause *pause) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(f.options.Silence, func() { cancel(errSilent) })
	defer late.Stop()
	resumable := false
	if list.changes == nil {
		var err error
		if resumable, err = f.resumable(ctx); err != nil {
			return err
		}
	}
	stream, err := f.client.StreamSnapshot(ctx)
	if err != nil {
		return err
	}
	late.Stop()
	s := &session{
		feed: f, stream: stream, ctx: ctx, late: late,
		answers: make(chan *evenkeelv1.UpdateSnapshotResponse, sentAhead),
		ended:   make(chan error, 1),
	}
	go s.receive()
	if !resumable {
		if err := s.replace(list); err != nil {
			return s.cause(err)
		}
		list.changes = nil
	}
	pause.reset()
	return s.cause(s.follow())
}

// cause returns why the session ended by itself, if it did.
func (s *session) cause(err error) error {
	if context.Cause(s.ctx) == errSilent {
		return errSilent
	}
	return err
}

func (s *session) receive() {
	for {
		answer, err := s.stream.Recv()
		if err != nil {
			s.ended <- err
			close(s.answers)
			return
		}
		select {
		case s.answers <- answer.GetUpdate():
		case <-s.ctx.Done():
		}
	}
}

// send sends a step. That it failed is known from the answers.
func (s *session) send(changes int, step *evenkeelv1.StreamSnapshotRequest) {
	if len(s.steps) == 0 {
		s.late.Reset(s.feed.options.Silence)
	}
	s.steps = append(s.steps, changes)
	_ = s.stream.Send(step)
}

// took notes an answer. The error says why the stream ended.
func (s *session) took(answer *evenkeelv1.UpdateSnapshotResponse, open bool) (Position, error) {
	if !open {
		return Position{}, <-s.ended
	}
	if len(s.steps) == 0 {
		return Position{}, errors.New("the server acknowledges what was not sent")
	}
	s.steps = s.steps[1:]
	s.late.Stop()
	if len(s.steps) > 0 {
		s.late.Reset(s.feed.options.Silence)
	}
	return Position{Revision: answer.GetRevision(), Epoch: answer.GetEpoch()}, nil
}

// replace lists the state and puts it in the place of the snapshot.
func (s *session) replace(list *listing) error {
	options := &s.feed.options
	if list.changes == nil {
		taken, err := s.feed.take(s.ctx)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		*list = taken
	}
	s.send(0, &evenkeelv1.StreamSnapshotRequest{Step: &evenkeelv1.StreamSnapshotRequest_BeginReplace{
		BeginReplace: &evenkeelv1.BeginReplace{Snapshot: options.Snapshot}}})
	first := &evenkeelv1.UpdateSnapshotRequest{
		DefaultConstraints: options.DefaultConstraints, KubernetesVersion: options.KubernetesVersion,
		ResourceVersions: map[string]uint64{}}
	for _, kind := range options.ListedKinds {
		first.ResourceVersions[kind] = 0
	}
	acked := 0
	for rest, update := list.changes, first; update != nil; {
		batch := rest[:batchOf(rest)]
		rest = rest[len(batch):]
		update.Snapshot, update.Changes = options.Snapshot, batch
		s.send(len(batch), &evenkeelv1.StreamSnapshotRequest{
			Step: &evenkeelv1.StreamSnapshotRequest_Update{Update: update}})
		if update = nil; len(rest) > 0 {
			update = &evenkeelv1.UpdateSnapshotRequest{}
		}
		for len(s.steps) >= sentAhead {
			if _, err := s.replaced(list, &acked); err != nil {
				return err
			}
		}
	}
	s.send(0, &evenkeelv1.StreamSnapshotRequest{Step: &evenkeelv1.StreamSnapshotRequest_CommitReplace{
		CommitReplace: &evenkeelv1.CommitReplace{Snapshot: options.Snapshot}}})
	for {
		at, err := s.replaced(list, &acked)
		if err != nil {
			return err
		}
		if len(s.steps) == 0 {
			return s.feed.committed(at, list.number)
		}
	}
}

// replaced takes one acknowledgement of a replace. `acked` counts the changes of the list that
// the server has.
func (s *session) replaced(list *listing, acked *int) (Position, error) {
	count := s.steps[0]
	answer, open := <-s.answers
	at, err := s.took(answer, open)
	if err == nil {
		*acked += count
		return at, nil
	}
	kept, refused := split(list.changes[*acked:*acked+count], err)
	if len(refused) == 0 {
		return at, err
	}
	all := append([]*evenkeelv1.Change{}, list.changes[:*acked]...)
	list.changes = append(append(all, kept...), list.changes[*acked+count:]...)
	s.feed.report(refused, err)
	return at, errRefused
}

// follow sends each change, and heartbeats.
func (s *session) follow() error {
	idle := time.NewTimer(s.feed.options.Heartbeat)
	defer idle.Stop()
	sent := 0
	for {
		batch, listed := s.feed.next(sent)
		if !listed {
			return errOverflow
		}
		if len(batch) > 0 && len(s.steps) < sentAhead {
			s.update(batch)
			sent += len(batch)
			idle.Reset(s.feed.options.Heartbeat)
			continue
		}
		select {
		case answer, open := <-s.answers:
			count := 0
			if len(s.steps) > 0 {
				count = s.steps[0]
			}
			at, err := s.took(answer, open)
			if err != nil {
				if s.feed.refuse(count, err) {
					return errRefused
				}
				return err
			}
			if err := s.feed.acknowledged(count, at); err != nil {
				return err
			}
			sent -= count
		case <-s.feed.wake:
		case <-idle.C:
			if len(s.steps) == 0 {
				s.update(nil)
			}
			idle.Reset(s.feed.options.Heartbeat)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (s *session) update(changes []*evenkeelv1.Change) {
	s.send(len(changes), &evenkeelv1.StreamSnapshotRequest{Step: &evenkeelv1.StreamSnapshotRequest_Update{
		Update: &evenkeelv1.UpdateSnapshotRequest{Snapshot: s.feed.options.Snapshot, Changes: changes}}})
}

// pause is the wait before another attempt: 100 ms at first, then twice as long each time, up
// to half a minute, each shortened by a random part.
type pause struct{ next time.Duration }

func (p *pause) reset() { p.next = 0 }

func (p *pause) wait(ctx context.Context) error {
	p.next = min(max(2*p.next, 100*time.Millisecond), 30*time.Second)
	select {
	case <-time.After(p.next/2 + rand.N(p.next/2)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
