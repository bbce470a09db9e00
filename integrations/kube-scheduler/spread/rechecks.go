package spread

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// feedDelay is how much later Evenkeel may hear of an event than the scheduler.
const feedDelay = 2 * time.Second

// rechecks has pods tried again that were tried right after an event, of which Evenkeel may not have heard: the
// scheduler does not queue them for the same event a second time.
type rechecks struct {
	activator fwk.PodActivator
	mutex     sync.Mutex
	events    map[types.UID]time.Time
	swept     time.Time
}

// queued notes that an event has queued a pod.
func (r *rechecks) queued(uid types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := time.Now()
	if r.events == nil || now.Sub(r.swept) > time.Minute {
		former := r.events
		r.events, r.swept = make(map[types.UID]time.Time), now
		for uid, at := range former {
			if now.Sub(at) < feedDelay {
				r.events[uid] = at
			}
		}
	}
	r.events[uid] = now
}

// tried has a pod tried again if its event was just now. Nothing happens if it is bound by then.
func (r *rechecks) tried(ctx context.Context, pod *corev1.Pod) {
	r.mutex.Lock()
	at, queued := r.events[pod.UID]
	delete(r.events, pod.UID)
	r.mutex.Unlock()
	if wait := time.Until(at.Add(feedDelay)); queued && wait > 0 {
		logger := klog.FromContext(ctx)
		time.AfterFunc(wait, func() {
			r.activator.Activate(logger, map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod})
		})
	}
}
