package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

// server is an Evenkeel server.
type server struct {
	evenkeelv1.SpreadServiceClient
	pid int
}

// load replaces what the server holds.
func (s *server) load(ctx context.Context, now *cluster) error {
	request := &evenkeelv1.UpdateSnapshotRequest{Mode: evenkeelv1.Mode_MODE_REPLACE}
	for _, node := range now.nodes {
		converted, err := evenkeel.Convert(node, &evenkeelv1.Node{})
		if err != nil {
			return err
		}
		request.Changes = append(request.Changes, evenkeel.Change(converted))
	}
	for _, pod := range now.pods {
		converted, err := evenkeel.Convert(pod, &evenkeelv1.Pod{})
		if err != nil {
			return err
		}
		request.Changes = append(request.Changes, evenkeel.Change(converted))
	}
	_, err := s.UpdateSnapshot(ctx, request)
	return err
}

// violated is how many constraints of workloads are violated.
func (s *server) violated(ctx context.Context, sort sort) (int, error) {
	described, err := s.DescribeSpread(ctx, &evenkeelv1.DescribeSpreadRequest{MaxDomains: proto.Int32(1)})
	violated := 0
	for _, workload := range described.GetWorkloads() {
		for _, topology := range workload.Topologies {
			if topology.Excess > 0 {
				violated++
			}
		}
	}
	return violated, err
}

// replace takes a pod away, and puts the one that its owner makes where the scheduler would.
func (s *server) replace(ctx context.Context, now *cluster, name string) error {
	old := now.pods[name]
	if old == nil {
		return fmt.Errorf("no pod %s", name)
	}
	delete(now.pods, name)
	gone := evenkeel.Delete("Pod", namespace, name, "")
	if _, err := s.UpdateSnapshot(ctx, &evenkeelv1.UpdateSnapshotRequest{Changes: []*evenkeelv1.Change{gone}}); err != nil {
		return err
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName = ""
	template, err := evenkeel.Convert(pod, &evenkeelv1.Pod{})
	if err != nil {
		return err
	}
	placed, err := s.Place(ctx, &evenkeelv1.PlaceRequest{Pod: template, Replicas: 1})
	if err != nil {
		return err
	}
	for _, placement := range placed.Placements {
		pod.Spec.NodeName = placement.Node
	}
	now.add(pod)
	made, err := evenkeel.Convert(pod, &evenkeelv1.Pod{})
	if err != nil {
		return err
	}
	_, err = s.UpdateSnapshot(ctx, &evenkeelv1.UpdateSnapshotRequest{Changes: []*evenkeelv1.Change{evenkeel.Change(made)}})
	return err
}

// next is the first pod to move of a plan, if there is one, and the CPU time of the plan.
func (s *server) next(ctx context.Context, sort sort) (string, time.Duration, error) {
	before := s.cpu()
	plan, err := s.Rebalance(ctx, &evenkeelv1.RebalanceRequest{Soft: !sort.isHard})
	cpu := s.cpu() - before
	if err != nil || len(plan.Moves) == 0 {
		return "", cpu, err
	}
	return plan.Moves[0].Pod, cpu, nil
}

// cpu is the CPU time that the server has used.
func (s *server) cpu() time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid))
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			// A thread that has ended.
			continue
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err == nil {
			sum += time.Duration(ran)
		}
	}
	return sum
}
