// Evenkeel-scheduler is kube-scheduler with one more plugin, EvenkeelSpread, which takes the place of
// PodTopologySpread in profiles that say so.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"evenkeel.dev/kube-scheduler/spread"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(spread.Name, spread.New))))
}
