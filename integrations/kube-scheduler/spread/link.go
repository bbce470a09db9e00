package spread

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

const (
	// owner of the reservations.
	owner = "kube-scheduler"
	// ttl of a reservation: longer than pods wait for their volumes by default.
	ttl = 15 * time.Minute
	// settling is how long the reservation of a bound pod is made again if Evenkeel has lost it: the feed
	// brings the pod within this time.
	settling = time.Minute
	// pause before Evenkeel is asked again after it did not answer.
	pause = time.Second
	// attempts to ask, each after what makes the former answer useless: another epoch, or other nodes.
	attempts = 4
	// atOnce is how many pods one call reserves.
	atOnce = 1000
)

var (
	// errUnavailable is why nothing is asked.
	errUnavailable = errors.New("Evenkeel is not available")
	// errInvalid is why a pod cannot be asked about, which the API server has admitted.
	errInvalid = errors.New("Evenkeel refuses the pod as invalid")
)

// link is the connection to one snapshot. It tells Evenkeel where pods go, and no question is answered before
// Evenkeel knows of all that were reserved before.
type link struct {
	args   *EvenkeelSpreadArgs
	client *evenkeel.Client
	pods   corelisters.PodLister
	seen   *sightings
	order  atomic.Pointer[nodeOrder]

	mutex   sync.Mutex
	decider *evenkeel.Decider
	// retry is when to ask again, and cause why not before.
	retry time.Time
	cause error
	// epoch and revision that have the reservations. Empty: there is none.
	epoch    string
	revision int64
	// held are the pods that have been reserved and may not have arrived yet.
	held map[types.UID]*hold
	// untold are those of which Evenkeel has not heard, and gone the ids of those that are to be released.
	untold []*hold
	gone   []string
}

// hold is a pod that goes to a node.
type hold struct {
	pod  *corev1.Pod
	node string
	id   string
	over bool
}

// nodeOrder says which bit is whose.
type nodeOrder struct {
	epoch           string
	revision, since int64
	index           map[string]int
}

// covers returns whether the bits of an answer are in this order.
func (o *nodeOrder) covers(epoch string, revision, since int64) bool {
	return o != nil && o.epoch == epoch && since <= o.revision && o.since <= revision
}

func newLink(args *EvenkeelSpreadArgs, pods corelisters.PodLister, seen *sightings) (*link, error) {
	transport := insecure.NewCredentials()
	if args.TLS != nil {
		config, err := args.TLS.config()
		if err != nil {
			return nil, err
		}
		transport = credentials.NewTLS(config)
	}
	delays := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: pause}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	if args.TokenFile != "" {
		options = append(options, evenkeel.TokenFile(args.TokenFile))
	}
	client, err := evenkeel.Dial(args.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args.Address, err)
	}
	return &link{args: args, client: client, pods: pods, seen: seen, held: make(map[types.UID]*hold)}, nil
}

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		// Read for each connection: it may be renewed.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &pair, err
		}
	}
	return config, nil
}

func (l *link) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.drop()
	_ = l.client.Close()
}

// drop ends the stream of questions. The next one begins without its former failures.
func (l *link) drop() {
	if l.decider != nil {
		go l.decider.Close()
		l.decider = nil
	}
}

// told is the state that has the reservations, by which a question has to be answered at least.
type told struct {
	decider  *evenkeel.Decider
	epoch    string
	revision int64
}

// ask has a question asked that sees all reservations, again where the answer is of another epoch.
func (l *link) ask(ctx context.Context, question func(context.Context, told) error) error {
	// The scheduler cancels a search that has found enough; that says nothing about Evenkeel.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.args.Timeout.Duration)
	defer cancel()
	var err error
	for range attempts {
		var state told
		if state, err = l.ready(ctx); err != nil {
			return err
		}
		if err = question(ctx, state); err == nil {
			return nil
		}
		if status.Code(err) != codes.Aborted {
			break
		}
		l.lost(state.epoch)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.failed(ctx, err)
}

// ready tells Evenkeel what it has not heard of.
func (l *link) ready(ctx context.Context) (told, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if time.Now().Before(l.retry) {
		return told{}, fmt.Errorf("%w: %w", errUnavailable, l.cause)
	}
	if err := l.tell(ctx); err != nil {
		return told{}, l.failed(ctx, err)
	}
	if l.cause != nil {
		klog.FromContext(ctx).Info("Evenkeel answers again", "address", l.args.Address)
		l.cause = nil
	}
	if l.decider == nil {
		l.decider = evenkeel.NewDecider(l.client)
	}
	return told{l.decider, l.epoch, l.revision}, nil
}

// failed notes an error that says that Evenkeel cannot be asked, and returns it as such, but for one that is about
// the pod alone. The mutex is held.
func (l *link) failed(ctx context.Context, err error) error {
	if status.Code(err) == codes.InvalidArgument {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	if l.cause == nil {
		klog.FromContext(ctx).Error(err, "Evenkeel is not available", "address", l.args.Address,
			"onUnavailable", l.args.OnUnavailable)
	}
	l.retry, l.cause = time.Now().Add(pause), err
	l.drop()
	return fmt.Errorf("%w: %w", errUnavailable, err)
}

// lost has everything told again, because an epoch has ended and the reservations with it.
func (l *link) lost(epoch string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.epoch == epoch {
		l.begin("", 0)
	}
}

// begin is where another epoch begins, which has no reservations.
func (l *link) begin(epoch string, revision int64) {
	l.epoch, l.revision, l.gone, l.untold = epoch, revision, nil, nil
	for _, held := range l.held {
		held.id = ""
		l.untold = append(l.untold, held)
	}
}

// tell releases what is gone, and reserves what Evenkeel has not heard of. The mutex is held.
func (l *link) tell(ctx context.Context) error {
	if len(l.gone) > 0 {
		request := &evenkeelv1.ReleaseReservationsRequest{Snapshot: l.args.Snapshot, Ids: l.gone}
		answer, err := l.client.ReleaseReservations(ctx, request)
		if err != nil {
			return err
		}
		l.gone = nil
		l.advance(answer.GetEpoch(), answer.GetRevision())
	}
	most := atOnce
	for len(l.untold) > 0 {
		batch := l.untold[:min(len(l.untold), most)]
		rest := l.untold[len(batch):]
		batch = slices.DeleteFunc(slices.Clone(batch), l.isOver)
		request := &evenkeelv1.ReservePodsRequest{
			Snapshot: l.args.Snapshot,
			Reserve:  &evenkeelv1.Reservation{Owner: owner, Ttl: durationpb.New(ttl)},
		}
		for _, held := range batch {
			pod, err := evenkeel.Convert(held.pod, &evenkeelv1.Pod{})
			if err != nil {
				return err
			}
			request.Pods = append(request.Pods, &evenkeelv1.AssignedPod{Pod: pod, Node: held.node})
		}
		l.untold = rest
		if len(batch) == 0 {
			continue
		}
		answer, err := l.client.ReservePods(ctx, request)
		if status.Code(err) == codes.InvalidArgument && len(batch) == 1 {
			// The feed leaves such a pod out too.
			klog.FromContext(ctx).Error(err, "Evenkeel does not reserve the pod", "pod", klog.KObj(batch[0].pod))
			continue
		}
		if status.Code(err) == codes.InvalidArgument {
			l.untold, most = append(batch, rest...), 1
			continue
		}
		if err != nil {
			l.untold = append(batch, rest...)
			return err
		}
		l.advance(answer.GetEpoch(), answer.GetRevision())
		for number, held := range batch {
			held.id = answer.GetReservationIds()[number]
		}
		l.untold = slices.DeleteFunc(l.untold, func(held *hold) bool { return slices.Contains(batch, held) })
	}
	return nil
}

// advance notes the state that an answer is of.
func (l *link) advance(epoch string, revision int64) {
	switch {
	case l.epoch == epoch:
		l.revision = max(l.revision, revision)
	case l.epoch == "":
		l.epoch, l.revision = epoch, revision
	default:
		l.begin(epoch, revision)
	}
}

// isOver returns whether a pod needs no reservation: it was unreserved, or is not there any more.
func (l *link) isOver(held *hold) bool {
	if !held.over {
		pod, err := l.pods.Pods(held.pod.Namespace).Get(held.pod.Name)
		held.over = err != nil || pod.UID != held.pod.UID
		if held.over {
			delete(l.held, held.pod.UID)
		}
	}
	return held.over
}

// reserve says that a pod goes to a node. Where Evenkeel does not hear it, the next question waits for that.
func (l *link) reserve(ctx context.Context, pod *corev1.Pod, node string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if former := l.held[pod.UID]; former != nil {
		former.over = true
	}
	held := &hold{pod: pod, node: node}
	l.held[pod.UID] = held
	l.untold = append(l.untold, held)
	l.catchUp(ctx)
}

// release says that a pod does not go to its node.
func (l *link) release(ctx context.Context, uid types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	held := l.held[uid]
	if held == nil {
		return
	}
	held.over = true
	delete(l.held, uid)
	if held.id != "" {
		l.gone = append(l.gone, held.id)
	}
	l.catchUp(ctx)
}

// catchUp tells Evenkeel at once, if it can be asked. The mutex is held.
func (l *link) catchUp(ctx context.Context) {
	if time.Now().Before(l.retry) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.args.Timeout.Duration)
	defer cancel()
	if err := l.tell(ctx); err != nil {
		_ = l.failed(ctx, err)
	}
}

// bound forgets a pod once the feed has brought it.
func (l *link) bound(uid types.UID) {
	time.AfterFunc(settling, func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if held := l.held[uid]; held != nil {
			held.over = true
			delete(l.held, uid)
		}
	})
}

// nodes returns the order of the bits of an answer, or nil if it has changed since the answer.
func (l *link) nodes(ctx context.Context, epoch string, revision, since int64) (*nodeOrder, error) {
	if order := l.order.Load(); order.covers(epoch, revision, since) {
		return order, nil
	}
	order := &nodeOrder{index: make(map[string]int)}
	request := &evenkeelv1.ListNodesRequest{Snapshot: l.args.Snapshot, MinRevision: revision, Epoch: epoch}
	for {
		page, err := l.client.ListNodes(ctx, request)
		if err != nil {
			return nil, err
		}
		if request.PageToken == "" {
			order.epoch, order.revision, order.since = page.GetEpoch(), page.GetRevision(), page.GetNodeOrderRevision()
		} else if order.epoch != page.GetEpoch() || order.since != page.GetNodeOrderRevision() {
			return nil, nil
		}
		for _, name := range page.GetNames() {
			order.index[name] = len(order.index)
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if !order.covers(epoch, revision, since) {
		return nil, nil
	}
	l.order.Store(order)
	return order, nil
}
