package spread

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// inTreeDecisions counts what PodTopologySpread decided for Evenkeel.
var inTreeDecisions = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: "scheduler", Name: "evenkeel_in_tree_decisions_total", StabilityLevel: metrics.ALPHA,
	Help: "Node sets and scores that PodTopologySpread made because Evenkeel did not: it was unavailable, or refused the pod as invalid.",
}, []string{"reason"})

var register = sync.OnceFunc(func() { legacyregistry.MustRegister(inTreeDecisions) })
