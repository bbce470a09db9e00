package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// pair is both, asked about the same pods.
type pair struct {
	plugin   *plugin
	server   *server
	asked    question
	pods     []*corev1.Pod
	calls    []call
	revision int64
}

// newPair asks both about each pod once. It fails when they do not decide alike.
func newPair(ctx context.Context, plugin *plugin, server *server, held *cluster, asked question) (*pair, error) {
	p := &pair{plugin: plugin, server: server, asked: asked}
	for _, workload := range held.workloads(*workloads) {
		pod := asked.incoming(workload)
		converted, err := evenkeel.Convert(pod, &evenkeelv1.Pod{})
		if err != nil {
			return nil, err
		}
		p.pods = append(p.pods, pod)
		p.calls = append(p.calls, newCall(converted, asked.isHard))
		if err := p.compare(ctx, len(p.pods)-1); err != nil {
			return nil, fmt.Errorf("pod of %s: %w", pod.Labels["app"], err)
		}
	}
	return p, nil
}

func (p *pair) compare(ctx context.Context, i int) error {
	expected, _, err := p.plugin.decide(ctx, p.pods[i], p.asked)
	if err != nil {
		return err
	}
	said, err := p.calls[i](ctx, p.server.clients[0])
	if err != nil {
		return err
	}
	p.revision = said.GetRevision()
	decided, err := decisionOf(said, len(p.plugin.nodes))
	if err != nil {
		return err
	}
	for node := range expected {
		if decided[node] != expected[node] {
			return fmt.Errorf("%s: the plugin decides %d, Evenkeel %d",
				p.plugin.nodes[node].Node().Name, expected[node], decided[node])
		}
	}
	return nil
}

// turn is CPU time per decision.
type turn struct {
	plugin, counting time.Duration
	// With many calls at once, and with one.
	many, one share
}

// share is CPU time of the server, and of this process, which calls it.
type share struct{ server, caller time.Duration }

func (p *pair) turn(ctx context.Context) (turn, error) {
	var t turn
	var err error
	if t.plugin, t.counting, err = p.usePlugin(ctx); err != nil {
		return t, err
	}
	if t.many, err = p.useServer(ctx, *atOnce); err != nil {
		return t, err
	}
	t.one, err = p.useServer(ctx, 1)
	return t, err
}

// usePlugin decides about every pod equally often.
func (p *pair) usePlugin(ctx context.Context) (all, counting time.Duration, err error) {
	// What was left behind by others is not the plugin's.
	runtime.GC()
	var decisions int64
	before, until := ownCPU(), time.Now().Add(*duration)
	for time.Now().Before(until) {
		for _, pod := range p.pods {
			_, counted, err := p.plugin.decide(ctx, pod, p.asked)
			if err != nil {
				return 0, 0, err
			}
			counting += counted
			decisions++
		}
	}
	per := time.Duration(decisions)
	return (ownCPU() - before) / per, counting / per, nil
}

func (p *pair) useServer(ctx context.Context, atOnce int) (share, error) {
	runtime.GC()
	own := ownCPU()
	before, err := cpuOf(p.server.pid)
	if err != nil {
		return share{}, err
	}
	count, err := p.server.load(ctx, p.calls, p.revision, atOnce, *duration)
	if err != nil {
		return share{}, err
	}
	after, err := cpuOf(p.server.pid)
	per := time.Duration(count)
	return share{server: (after - before) / per, caller: (ownCPU() - own) / per}, err
}

// measure lets both take turns, because the machine is at times slower for a while:
// ratios are medians of neighbours. It returns the cells of a row.
func (p *pair) measure(ctx context.Context) (string, error) {
	// Not counted.
	if _, err := p.useServer(ctx, *atOnce); err != nil {
		return "", err
	}
	var taken []turn
	for range *turns {
		t, err := p.turn(ctx)
		if err != nil {
			return "", err
		}
		taken = append(taken, t)
	}
	of := func(value func(turn) float64) float64 { return median(taken, value) }
	return fmt.Sprintf("%.2f ms | %.0f %% | %.1f µs | %.0f | %.1f µs | %.1f µs | %.0f",
		of(func(t turn) float64 { return t.plugin.Seconds() * 1e3 }),
		of(func(t turn) float64 { return 100 * ratio(t.counting, t.plugin) }),
		of(func(t turn) float64 { return t.many.server.Seconds() * 1e6 }),
		of(func(t turn) float64 { return ratio(t.plugin, t.many.server) }),
		of(func(t turn) float64 { return t.one.server.Seconds() * 1e6 }),
		of(func(t turn) float64 { return t.one.caller.Seconds() * 1e6 }),
		of(func(t turn) float64 { return ratio(t.plugin, t.one.server+t.one.caller) }),
	), nil
}

func ratio(over, under time.Duration) float64 { return float64(over) / float64(under) }

func median(turns []turn, value func(turn) float64) float64 {
	var values []float64
	for _, t := range turns {
		values = append(values, value(t))
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
