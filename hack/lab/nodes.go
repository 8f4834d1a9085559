package lab

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// AddNodes creates nodes and waits until pods can be placed on them.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...Node) error {
	if !c.owned {
		return ErrNotOwned
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for i, spec := range nodes {
		node, err := nodeObject(spec, version.GitVersion, i, c.kubeletPort)
		if err != nil {
			return err
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating node %s: %w", spec.Name, err)
		}
		names[spec.Name] = true
	}
	return c.poll(ctx, "nodes to be ready", func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the deadline reports what does not get better
		}
		ready := 0
		for i := range list.Items {
			if names[list.Items[i].Name] && usable(&list.Items[i]) {
				ready++
			}
		}
		return ready == len(names), nil
	})
}

// poll asks until the answer is yes, an error, or Options.ReadyTimeout has passed.
func (c *Cluster) poll(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, c.lab.options.ReadyTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ask(ctx); done || err != nil {
			return err
		}
		for _, process := range c.processes() {
			if !process.Running() {
				return fmt.Errorf("%s: waiting for %s: %w", c.spec.Name, what, process.exitError())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: waiting for %s: %w", c.spec.Name, what, ctx.Err())
		case <-tick.C:
		}
	}
}

func usable(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
	return ready && !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady
	})
}

// nodeObject returns a node as its kubelet, which has this port of this machine unless it is 0, would register it. KWOK
// makes it Ready.
func nodeObject(spec Node, version string, index, kubeletPort int) (*corev1.Node, error) {
	resources := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: spec.CPU, corev1.ResourceMemory: spec.Memory} {
		parsed, err := resource.ParseQuantity(quantity)
		if err != nil {
			return nil, fmt.Errorf("node %s: %s %q: %w", spec.Name, name, quantity, err)
		}
		resources[name] = parsed
	}
	if spec.GPUs > 0 {
		resources["nvidia.com/gpu"] = resource.MustParse(strconv.Itoa(spec.GPUs))
	}
	labels := map[string]string{
		corev1.LabelHostname:   spec.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
	}
	for key, value := range spec.Labels {
		labels[key] = value
	}
	address := fmt.Sprintf("10.1.%d.%d", index/250, index%250+1)
	if kubeletPort != 0 {
		address = "127.0.0.1"
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address},
				{Type: corev1.NodeHostName, Address: spec.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(kubeletPort)}}, //nolint:gosec // a port
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: version, ContainerRuntimeVersion: "kwok",
			},
		},
	}, nil
}
