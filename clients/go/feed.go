package evenkeel

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	evenkeelv1 "evenkeel.dev/client/v1"
)

const (
	// batchSize is how many changes are sent together at most.
	batchSize = 1000
	// sentAhead is how many batches are sent without an acknowledgement at most.
	sentAhead = 8
	// queueSize is how many changes wait for an acknowledgement at most. When there are
	// more, they are forgotten and the state is listed anew.
	queueSize = 100_000
)

// FeedOptions say what a feed sends.
type FeedOptions struct {
	// Snapshot is the name of the snapshot; empty means "default".
	Snapshot string
	// List returns the whole state, as changes that create each object. What is given to Send
	// before List is called has to be in it. Required.
	List func(context.Context) ([]*evenkeelv1.Change, error)
	// DefaultConstraints are sent with each list, unless nil: then they stay as they are.
	DefaultConstraints *evenkeelv1.DefaultConstraints
	// KubernetesVersion is sent with each list; empty means that it stays as it is.
	KubernetesVersion string
	// ListedKinds are the kinds of which List returns all objects, such as "StorageClass". Where
	// these are "PersistentVolumeClaim", "PersistentVolume" and "StorageClass", a claim that is
	// missing does not exist, although there may be no volume and no class.
	ListedKinds []string
	// Heartbeat is how long the feed is silent while nothing changes. 0 means 10 s. A third
	// of the snapshot's maximum age or less is right.
	Heartbeat time.Duration
	// Silence is how long an acknowledgement may take. 0 means 30 s.
	Silence time.Duration
	// OnRefused hears of each change that the server refuses as not valid, which is left
	// out. Nil means that [slog.Default] does.
	OnRefused func(*evenkeelv1.Change, error)
	// OnError hears why the feed starts over. Nil means that [slog.Default] does.
	OnError func(error)
}

// Position is a state of a snapshot: what to send as MinRevision and Epoch of a question, to
// ask of that state or a later one.
type Position struct {
	// Revision of the snapshot.
	Revision int64
	// Epoch of the revision.
	Epoch string
}

// Feed keeps a snapshot of one server equal to what its caller knows. It lists the state,
// replaces the snapshot by it, and then sends each change. When the stream breaks it
// connects again, after a pause that grows to half a minute. If the snapshot has still the epoch
// of the last acknowledgement, the feed resumes with what was not acknowledged. Otherwise the
// server has lost the snapshot, and the feed lists and replaces again.
//
// Each server without a common log has a feed of its own.
type Feed struct {
	client  evenkeelv1.SpreadServiceClient
	options FeedOptions
	wake    chan struct{}

	mutex sync.Mutex
	// queue has the changes that are not acknowledged, oldest first.
	queue []*evenkeelv1.Change
	// ended counts the changes that have left the queue.
	ended uint64
	// listed says that the server has the list and all that has left the queue.
	listed bool
	// lists counts how often the state had to be listed.
	lists    uint64
	position Position
	// moved is closed when any of the above changes.
	moved chan struct{}
}

// NewFeed returns a feed that sends nothing before Run.
func NewFeed(client evenkeelv1.SpreadServiceClient, options FeedOptions) *Feed {
	if options.Heartbeat == 0 {
		options.Heartbeat = 10 * time.Second
	}
	if options.Silence == 0 {
		options.Silence = 30 * time.Second
	}
	if options.OnRefused == nil {
		options.OnRefused = logRefused
	}
	if options.OnError == nil {
		options.OnError = func(err error) { slog.Warn("the feed starts over", "error", err) }
	}
	return &Feed{client: client, options: options, wake: make(chan struct{}, 1), moved: make(chan struct{})}
}

func logRefused(change *evenkeelv1.Change, err error) {
	id := identityOf(change)
	slog.Error("the feed leaves out what the server refuses",
		"kind", id.kind, "namespace", id.namespace, "name", id.name, "error", err)
}

// Send has changes sent, in this order, and does not wait. The messages must not be changed
// afterwards.
func (f *Feed) Send(changes ...*evenkeelv1.Change) {
	f.mutex.Lock()
	f.queue = append(f.queue, changes...)
	if len(f.queue) > queueSize {
		f.forget()
	}
	f.mutex.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Flush waits until the server has all that was given to Send before, and returns where that
// is.
func (f *Feed) Flush(ctx context.Context) (Position, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	wanted := f.ended + uint64(len(f.queue))
	for !f.listed || f.ended < wanted {
		moved := f.moved
		f.mutex.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		f.mutex.Lock()
		if err := ctx.Err(); err != nil {
			return Position{}, err
		}
	}
	return f.position, nil
}

// Run feeds until the context ends, whose error it returns. It is called once.
func (f *Feed) Run(ctx context.Context) error {
	var pause pause
	var list listing
	for {
		err := f.session(ctx, &list, &pause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errRefused) {
			continue
		}
		list = listing{}
		f.options.OnError(err)
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// forget gives up the queue: the state has to be listed. The mutex is held.
func (f *Feed) forget() {
	f.ended += uint64(len(f.queue))
	f.queue = nil
	f.listed = false
	f.lists++
	f.changed()
}

// changed tells those who wait. The mutex is held.
func (f *Feed) changed() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// listing is the whole state as it was listed. Without changes, not nil, it is empty; with nil
// there is none.
type listing struct {
	changes []*evenkeelv1.Change
	number  uint64
}

// take lists the state, which has all that was sent before.
func (f *Feed) take(ctx context.Context) (listing, error) {
	f.mutex.Lock()
	f.forget()
	number := f.lists
	f.mutex.Unlock()
	changes, err := f.options.List(ctx)
	if changes == nil {
		changes = []*evenkeelv1.Change{}
	}
	return listing{changes, number}, err
}

// committed notes that the server has a listing. That is not enough if changes were forgotten
// since.
func (f *Feed) committed(at Position, number uint64) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if number != f.lists {
		return errOverflow
	}
	f.listed, f.position = true, at
	f.changed()
	return nil
}

// next returns a batch of changes after the first `sent` ones; false means that the state has
// to be listed.
func (f *Feed) next(sent int) ([]*evenkeelv1.Change, bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !f.listed {
		return nil, false
	}
	rest := f.queue[sent:]
	return rest[:batchOf(rest[:min(len(rest), batchSize)])], true
}

// acknowledged notes that the server has the first changes of the queue.
func (f *Feed) acknowledged(count int, at Position) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case !f.listed:
		return errOverflow
	case at.Epoch != f.position.Epoch:
		f.forget()
		return errEpoch
	case at.Revision < f.position.Revision:
		f.forget()
		return errBehind
	}
	f.queue = f.queue[count:]
	f.ended += uint64(count)
	f.position = at
	f.changed()
	return nil
}

// refuse leaves out what the server refuses of the first changes of the queue.
func (f *Feed) refuse(count int, err error) bool {
	f.mutex.Lock()
	if !f.listed {
		f.mutex.Unlock()
		return false
	}
	kept, refused := split(f.queue[:count], err)
	f.queue = append(kept, f.queue[count:]...)
	f.ended += uint64(len(refused))
	f.changed()
	f.mutex.Unlock()
	f.report(refused, err)
	return len(refused) > 0
}

func (f *Feed) report(refused []*evenkeelv1.Change, err error) {
	for _, change := range refused {
		f.options.OnRefused(change, err)
	}
}

// split parts a batch into the changes that an error does not name, and those that it names.
func split(batch []*evenkeelv1.Change, err error) (kept, refused []*evenkeelv1.Change) {
	named := refusedIn(err, len(batch))
	for number, change := range batch {
		if named[number] {
			refused = append(refused, change)
		} else {
			kept = append(kept, change)
		}
	}
	return kept, refused
}

// resumable finds out whether the server has the snapshot still that was acknowledged.
// It fails when that cannot be known: a server that cannot be reached may have it.
func (f *Feed) resumable(ctx context.Context) (bool, error) {
	f.mutex.Lock()
	listed, position := f.listed, f.position
	f.mutex.Unlock()
	if !listed {
		return false, nil
	}
	answer, err := f.client.GetSnapshot(ctx, &evenkeelv1.GetSnapshotRequest{Snapshot: f.options.Snapshot})
	if code := status.Code(err); code == codes.NotFound || code == codes.PermissionDenied {
		return false, nil
	}
	held := answer.GetSnapshot()
	return held.GetSynced() && held.GetEpoch() == position.Epoch &&
		held.GetRevision() >= position.Revision, err
}
