// Peers compares what a decision about topology spread costs in Evenkeel, over gRPC,
// and in kube-scheduler's own plugin, in this process: the same cluster, the same pods,
// in turns. It first compares what they decide, and fails where they differ.
//
// It prints rows of the table that bench/peers/run makes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

var (
	file        = flag.String("cluster", "", "`file` of synth, which the server has loaded")
	address     = flag.String("server", "", "`address` of the server, without http://")
	pid         = flag.Int("pid", 0, "process `id` of the server")
	turns       = flag.Int("turns", 3, "how often both take turns; medians count")
	duration    = flag.Duration("duration", 2*time.Second, "how long a turn of either takes at least")
	workloads   = flag.Int("workloads", 20, "how many workloads the incoming pods are of")
	connections = flag.Int("connections", 4, "connections to the server")
	atOnce      = flag.Int("at-once", 64, "calls at once")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if min(*turns, *workloads, *connections, *atOnce) < 1 || *duration <= 0 {
		return errors.New("-turns, -duration, -workloads, -connections and -at-once must be more than 0")
	}
	held, err := readCluster(*file)
	if err != nil {
		return err
	}
	plugin, err := newPlugin(ctx, held)
	if err != nil {
		return err
	}
	server, err := connect(*address, *pid, *connections)
	if err != nil {
		return err
	}
	for _, question := range held.questions() {
		asked, err := newPair(ctx, plugin, server, held, question)
		if err != nil {
			return fmt.Errorf("%s: %w", question, err)
		}
		row, err := asked.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", question, err)
		}
		fmt.Printf("| %d | %d | %s | %s |\n", len(held.nodes), len(held.pods), question, row)
		fmt.Fprintf(os.Stderr, "%d nodes, %s: %d pods, the same decisions\n",
			len(held.nodes), question, len(asked.pods))
	}
	return nil
}
