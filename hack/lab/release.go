package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Release lets the pods that match a label selector in a namespace, and that AskHold keeps running, end
// with the given exit code as soon as their seconds are over. It returns how many pods matched.
func (c *Cluster) Release(ctx context.Context, namespace, selector string, exitCode int) (int, error) {
	return c.Tell(ctx, namespace, selector, map[string]string{
		AskHold:     "false",
		AskExitCode: fmt.Sprint(exitCode),
	})
}

// Tell sets annotations (the Ask constants) on the pods that match a label selector in a namespace. It
// returns how many pods matched.
func (c *Cluster) Tell(ctx context.Context, namespace, selector string, annotations map[string]string) (int, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return 0, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return 0, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, pod := range pods.Items {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		errs = append(errs, err)
	}
	return len(pods.Items), errors.Join(errs...)
}
