package evenkeel

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	evenkeelv1 "evenkeel.dev/client/v1"
)

const (
	// unanswered is how many unanswered questions of a stream a server takes.
	unanswered = 256
	// attempts is how often a question is asked whose stream ends with UNAVAILABLE.
	attempts = 4
)

// ErrClosed is the error of questions to a Decider that is closed.
var ErrClosed = errors.New("the decider is closed")

// Decider asks questions over one stream, which costs a fraction of a call each. When the stream
// ends with UNAVAILABLE, what was not answered is asked again on another one, up to three times.
// It may be used by several goroutines.
type Decider struct {
	client evenkeelv1.SpreadServiceClient
	ctx    context.Context
	cancel context.CancelCauseFunc
	// slots has an entry for each question that the server has not answered.
	slots chan struct{}
	// steps has what is to be sent on the stream. There is room for each open question, for its
	// cancellation, and for those of questions that were answered meanwhile.
	steps chan *evenkeelv1.DecideRequest
	ended sync.WaitGroup

	mutex sync.Mutex
	last  uint64
	open  map[uint64]*question
}

type question struct {
	message  *evenkeelv1.Question
	deadline time.Time
	attempts int
	// tell gives the answer or the error to the future.
	tell func(*evenkeelv1.DecideResponse, error)
}

// NewDecider returns a decider. Its stream is opened with the first question.
func NewDecider(client evenkeelv1.SpreadServiceClient) *Decider {
	d := &Decider{
		client: client,
		slots:  make(chan struct{}, unanswered),
		steps:  make(chan *evenkeelv1.DecideRequest, 3*unanswered),
		open:   make(map[uint64]*question),
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.ended.Go(d.run)
	return d
}

// Close ends the stream. Questions without an answer get ErrClosed.
func (d *Decider) Close() {
	d.cancel(ErrClosed)
	d.ended.Wait()
}

// Future is an answer that may not be there yet.
type Future[T any] struct {
	done   chan struct{}
	once   sync.Once
	answer T
	err    error
}

// Done is closed when the answer is there.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

// Wait waits for the answer. A question that is refused has the status that its call would have.
func (f *Future[T]) Wait() (T, error) {
	<-f.done
	return f.answer, f.err
}

func (f *Future[T]) set(answer T, err error) {
	f.once.Do(func() {
		f.answer, f.err = answer, err
		close(f.done)
	})
}

// Filter asks which nodes are feasible. The context is that of the question: it is given up when
// the context ends. The request must not be changed before it is answered.
func (d *Decider) Filter(ctx context.Context, request *evenkeelv1.FilterRequest) *Future[*evenkeelv1.FilterResponse] {
	return ask(ctx, d, &evenkeelv1.Question{Ask: &evenkeelv1.Question_Filter{Filter: request}},
		(*evenkeelv1.DecideResponse).GetFilter)
}

// Score asks how good nodes are. The rest is as with Filter.
func (d *Decider) Score(ctx context.Context, request *evenkeelv1.ScoreRequest) *Future[*evenkeelv1.ScoreResponse] {
	return ask(ctx, d, &evenkeelv1.Question{Ask: &evenkeelv1.Question_Score{Score: request}},
		(*evenkeelv1.DecideResponse).GetScore)
}

// Place asks where replicas should go. One that reserves is given a request id if it has none,
// as with Dial. The rest is as with Filter.
func (d *Decider) Place(ctx context.Context, request *evenkeelv1.PlaceRequest) *Future[*evenkeelv1.PlaceResponse] {
	return ask(ctx, d, &evenkeelv1.Question{Ask: &evenkeelv1.Question_Place{Place: identified(request)}},
		(*evenkeelv1.DecideResponse).GetPlace)
}

func ask[T any](ctx context.Context, d *Decider, message *evenkeelv1.Question,
	read func(*evenkeelv1.DecideResponse) T) *Future[T] {
	future := &Future[T]{done: make(chan struct{})}
	var none T
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		future.set(none, contextError(ctx))
		return future
	case <-d.ctx.Done():
		future.set(none, ErrClosed)
		return future
	}
	deadline, _ := ctx.Deadline()
	asked := &question{message: message, deadline: deadline}
	forget := context.AfterFunc(ctx, func() {
		future.set(none, contextError(ctx))
		d.withdraw(asked)
	})
	asked.tell = func(answer *evenkeelv1.DecideResponse, err error) {
		forget()
		if err != nil {
			future.set(none, err)
		} else {
			future.set(read(answer), nil)
		}
	}
	d.enter(asked)
	return future
}

// contextError is the status of a call whose context ended.
func contextError(ctx context.Context) error {
	return status.FromContextError(ctx.Err()).Err()
}

// enter has a question sent that has a slot.
func (d *Decider) enter(asked *question) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.ctx.Err() != nil {
		<-d.slots
		asked.tell(nil, ErrClosed)
		return
	}
	d.last++
	asked.message.Id = d.last
	d.open[d.last] = asked
	d.steps <- asked.step()
}

// withdraw tells the server that a question needs no answer. Its slot is free when the
// server has answered that.
func (d *Decider) withdraw(asked *question) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if id := asked.message.GetId(); id != 0 && d.open[id] == asked {
		asked.attempts = attempts
		d.steps <- &evenkeelv1.DecideRequest{Step: &evenkeelv1.DecideRequest_Cancel{Cancel: id}}
	}
}

// step is the question with the time that is left.
func (q *question) step() *evenkeelv1.DecideRequest {
	message := &evenkeelv1.Question{Id: q.message.GetId(), Ask: q.message.GetAsk()}
	if !q.deadline.IsZero() {
		message.Timeout = durationpb.New(max(time.Until(q.deadline), time.Millisecond))
	}
	return &evenkeelv1.DecideRequest{Step: &evenkeelv1.DecideRequest_Question{Question: message}}
}

// settle removes a question and tells its answer.
func (d *Decider) settle(id uint64, answer *evenkeelv1.DecideResponse, err error) {
	d.mutex.Lock()
	asked := d.open[id]
	delete(d.open, id)
	d.mutex.Unlock()
	if asked != nil {
		<-d.slots
		asked.tell(answer, err)
	}
}

// run opens streams while there is something to ask.
func (d *Decider) run() {
	var pause pause
	for d.ctx.Err() == nil {
		select {
		case <-d.ctx.Done():
		case step := <-d.steps:
			err := d.converse(step, &pause)
			if d.reask(err) && d.ctx.Err() == nil {
				_ = pause.wait(d.ctx)
			}
		}
	}
	d.fail(func(*question) bool { return true }, ErrClosed)
}

// converse sends steps and takes answers until the stream ends, and says why it did.
func (d *Decider) converse(step *evenkeelv1.DecideRequest, pause *pause) error {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	stream, err := d.client.Decide(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			pause.reset()
			d.settle(answer.GetId(), answer, refusal(answer.GetError()))
		}
	}()
	for {
		// Why this fails is known from Recv.
		if stream.Send(step) != nil {
			return <-ended
		}
		select {
		case step = <-d.steps:
		case err := <-ended:
			return err
		}
	}
}

// refusal is the error with which a call would have ended.
func refusal(refused *rpcstatus.Status) error {
	if refused == nil {
		return nil
	}
	return status.ErrorProto(refused)
}

// reask has the questions asked again that a stream has left without an answer, or tells why
// there is none. It says whether any is asked again.
func (d *Decider) reask(err error) bool {
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the server has ended the stream")
	}
	if d.ctx.Err() != nil {
		err = ErrClosed
	}
	lost := status.Code(err) == codes.Unavailable
	d.fail(func(asked *question) bool {
		asked.attempts++
		return !lost || asked.attempts >= attempts
	}, err)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	// All that is open is asked again: what was to be sent is among that.
	for len(d.steps) > 0 {
		<-d.steps
	}
	for _, asked := range d.open {
		d.steps <- asked.step()
	}
	return len(d.open) > 0
}

// fail tells open questions an error.
func (d *Decider) fail(which func(*question) bool, err error) {
	d.mutex.Lock()
	var failed []uint64
	for id, asked := range d.open {
		if which(asked) {
			failed = append(failed, id)
		}
	}
	d.mutex.Unlock()
	for _, id := range failed {
		d.settle(id, nil, err)
	}
}
