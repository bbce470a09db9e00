package evenkeel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

const zone = "topology.kubernetes.io/zone"

func node(number int) *evenkeelv1.Node {
	return &evenkeelv1.Node{Metadata: &evenkeelv1.ObjectMeta{
		Name:   fmt.Sprintf("node-%d", number),
		Labels: map[string]string{zone: fmt.Sprintf("zone-%d", number%3)},
	}}
}

func pod(name, nodeName string) *evenkeelv1.Pod {
	labels := map[string]string{"app": "web"}
	return &evenkeelv1.Pod{
		Metadata: &evenkeelv1.ObjectMeta{Name: name, Namespace: "shop", Labels: labels},
		Spec: &evenkeelv1.PodSpec{
			NodeName: nodeName,
			TopologySpreadConstraints: []*evenkeelv1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: "DoNotSchedule",
				LabelSelector: &evenkeelv1.LabelSelector{MatchLabels: labels},
			}},
		},
	}
}

// limited is a context that ends long after a test should.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// exported returns the names of all that a snapshot holds, with the nodes of pods.
func exported(t *testing.T, client *evenkeel.Client, snapshot string) map[string]string {
	t.Helper()
	parts, err := client.ExportSnapshot(limited(t), &evenkeelv1.ExportSnapshotRequest{Snapshot: snapshot})
	if err != nil {
		t.Fatal(err)
	}
	held := make(map[string]string)
	for {
		part, err := parts.Recv()
		if errors.Is(err, io.EOF) {
			return held
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range part.GetUpdate().GetChanges() {
			if pod := change.GetPod(); pod != nil {
				held[pod.GetMetadata().GetName()] = pod.GetSpec().GetNodeName()
			} else {
				held[change.GetNode().GetMetadata().GetName()] = ""
			}
		}
	}
}
