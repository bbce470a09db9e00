package main

import (
	"context"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"
	frameworktesting "sigs.k8s.io/descheduler/pkg/framework/testing"
	frameworktypes "sigs.k8s.io/descheduler/pkg/framework/types"
)

// balance runs the plugin once. It returns the names of the pods that it evicted, and the CPU time
// of that.
func balance(ctx context.Context, now *cluster, sort sort) ([]string, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	for _, node := range now.nodes {
		objects = append(objects, node)
	}
	for _, pod := range now.pods {
		objects = append(objects, pod)
	}
	client := fake.NewClientset(objects...)
	var evicted []string
	client.PrependReactor("create", "pods", func(action core.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := action.(core.CreateAction).GetObject().(*policyv1.Eviction)
		evicted = append(evicted, eviction.Name)
		return true, nil, nil
	})
	handle, _, err := frameworktesting.InitFrameworkHandle(ctx, client, nil,
		defaultevictor.DefaultEvictorArgs{NodeFit: true}, nil)
	if err != nil {
		return nil, 0, err
	}
	args := &removepodsviolatingtopologyspreadconstraint.RemovePodsViolatingTopologySpreadConstraintArgs{}
	if !sort.isHard {
		args.Constraints = []corev1.UnsatisfiableConstraintAction{corev1.ScheduleAnyway}
	}
	removepodsviolatingtopologyspreadconstraint.SetDefaults_RemovePodsViolatingTopologySpreadConstraintArgs(args)
	plugin, err := removepodsviolatingtopologyspreadconstraint.New(ctx, args, handle)
	if err != nil {
		return nil, 0, err
	}
	before := ownCPU()
	status := plugin.(frameworktypes.BalancePlugin).Balance(ctx, now.nodes)
	cpu := ownCPU() - before
	if status != nil && status.Err != nil {
		return nil, cpu, status.Err
	}
	return evicted, cpu, nil
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	// It fails for an unknown target only.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
