// Descheduler compares plans of Evenkeel with the real descheduler's plugin
// RemovePodsViolatingTopologySpreadConstraint, which runs in this process: the same random
// clusters, and the same scheduler (Place of an Evenkeel server) for the pods that come back.
//
//	evenkeel serve --listen 127.0.0.1:50051 &
//	go run . -server 127.0.0.1:50051 -pid $! -cases 100
//
// It prints the rows of a table: pods moved, constraints violated before and after, pods left
// without a node, rounds, and CPU time of Balance and of Rebalance.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	evenkeelv1 "evenkeel.dev/client/v1"
)

var (
	address = flag.String("server", "127.0.0.1:50051", "`address` of a server whose default snapshot may be replaced")
	pid     = flag.Int("pid", 0, "process `id` of the server")
	cases   = flag.Int("cases", 100, "clusters of each sort")
	nodes   = flag.Int("nodes", 12, "nodes of a cluster")
	pods    = flag.Int("pods", 40, "pods of a cluster")
)

// mostRounds is when a descheduler that still evicts is stopped.
const mostRounds = 20

// sort of constraints.
type sort struct {
	name   string
	keys   []string
	isHard bool
}

var sorts = []sort{
	{"zone hard", []string{corev1.LabelTopologyZone}, true},
	{"zone + hostname hard", []string{corev1.LabelTopologyZone, corev1.LabelHostname}, true},
	{"zone soft", []string{corev1.LabelTopologyZone}, false},
	{"zone + hostname soft", []string{corev1.LabelTopologyZone, corev1.LabelHostname}, false},
}

// outcome of making clusters even.
type outcome struct {
	moved, violated, pending, rounds, endless int
	cpu                                       time.Duration
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	// The plugin says of each pod why it stays.
	klog.SetLogger(klog.Logger{})
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	connection, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	evenkeel := &server{evenkeelv1.NewSpreadServiceClient(connection), *pid}
	fmt.Println("| constraints | | pods moved | violated | without a node | rounds | still evicts | CPU |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|--:|")
	for _, sort := range sorts {
		var before int
		var theirs, ours outcome
		for seed := range *cases {
			made := randomCluster(rand.New(rand.NewPCG(uint64(seed), 0)), sort)
			if err := evenkeel.load(ctx, made); err != nil {
				return err
			}
			violated, err := evenkeel.violated(ctx, sort)
			if err != nil {
				return err
			}
			before += violated
			if err := descheduled(ctx, evenkeel, made.copied(), sort, &theirs); err != nil {
				return fmt.Errorf("%s, seed %d: descheduler: %w", sort.name, seed, err)
			}
			if err := evenkeel.load(ctx, made); err != nil {
				return err
			}
			if err := rebalanced(ctx, evenkeel, made.copied(), sort, &ours); err != nil {
				return fmt.Errorf("%s, seed %d: %w", sort.name, seed, err)
			}
		}
		row(sort.name, fmt.Sprintf("before, %d clusters", *cases), outcome{violated: before})
		row("", "descheduler", theirs)
		row("", "Evenkeel", ours)
	}
	return nil
}

func row(name, who string, it outcome) {
	fmt.Printf("| %s | %s | %d | %d | %d | %d | %d | %d ms |\n", name, who, it.moved, it.violated,
		it.pending, it.rounds, it.endless, it.cpu.Milliseconds())
}

// descheduled lets the descheduler evict until it stops, and the scheduler place what comes back.
func descheduled(ctx context.Context, evenkeel *server, now *cluster, sort sort, sum *outcome) error {
	rounds := 0
	for ; rounds < mostRounds; rounds++ {
		evicted, cpu, err := balance(ctx, now, sort)
		sum.cpu += cpu
		if err != nil {
			return err
		}
		if len(evicted) == 0 {
			break
		}
		for _, name := range evicted {
			if err := evenkeel.replace(ctx, now, name); err != nil {
				return err
			}
		}
		sum.moved += len(evicted)
	}
	sum.rounds += rounds
	if rounds == mostRounds {
		sum.endless++
	}
	return sum.end(ctx, evenkeel, now, sort)
}

// rebalanced makes the first move of a plan after the other, as rebalance --apply does.
func rebalanced(ctx context.Context, evenkeel *server, now *cluster, sort sort, sum *outcome) error {
	moves := 0
	for ; moves < 3**pods; moves++ {
		next, cpu, err := evenkeel.next(ctx, sort)
		sum.cpu += cpu
		if err != nil {
			return err
		}
		if next == "" {
			break
		}
		if err := evenkeel.replace(ctx, now, next); err != nil {
			return err
		}
	}
	sum.moved += moves
	sum.rounds += moves
	if moves == 3**pods {
		sum.endless++
	}
	return sum.end(ctx, evenkeel, now, sort)
}

func (o *outcome) end(ctx context.Context, evenkeel *server, now *cluster, sort sort) error {
	violated, err := evenkeel.violated(ctx, sort)
	o.violated += violated
	for _, pod := range now.pods {
		if pod.Spec.NodeName == "" {
			o.pending++
		}
	}
	return err
}
