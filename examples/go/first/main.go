// The first decision of docs/api.md, of the server whose address is the argument.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"evenkeel.dev/client"
	evenkeelv1 "evenkeel.dev/client/v1"
)

func main() {
	address, ctx := os.Args[1], context.Background()
	client, err := evenkeel.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	web := map[string]string{"app": "web"}
	constraint := &evenkeelv1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone",
		WhenUnsatisfiable: "DoNotSchedule", LabelSelector: &evenkeelv1.LabelSelector{MatchLabels: web}}
	answer, err := client.Filter(ctx, &evenkeelv1.FilterRequest{Pod: &evenkeelv1.Pod{
		Metadata: &evenkeelv1.ObjectMeta{Namespace: "shop", Labels: web}, Spec: &evenkeelv1.PodSpec{TopologySpreadConstraints: []*evenkeelv1.TopologySpreadConstraint{constraint}}}})
	fmt.Println(answer.GetFeasible(), err)
}
