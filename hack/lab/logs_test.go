package lab_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestLogs(t *testing.T) {
	needsOwned(t)
	t.Parallel()
	member := shared.Cluster("member")
	client, namespace := start(t, jobWith(1, map[string]string{lab.AskHold: "true"}))
	pod := runningPod(t, client, namespace)
	if err := member.WriteLog("hello from the pod"); err != nil {
		t.Fatal(err)
	}
	read := func(o corev1.PodLogOptions) io.ReadCloser {
		t.Helper()
		o.Container = "app"
		stream, err := client.CoreV1().Pods(namespace).GetLogs(pod, &o).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stream.Close() })
		return stream
	}
	if text, err := io.ReadAll(read(corev1.PodLogOptions{})); err != nil || !strings.Contains(string(text), "hello from the pod\n") {
		t.Errorf("log %q, error %v", text, err)
	}
	// A kubelet answers once there is a line.
	followed := bufio.NewScanner(read(corev1.PodLogOptions{Follow: true, TailLines: new(int64(1))}))
	if err := member.WriteLog("one more line"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hello from the pod", "one more line"} {
		if !followed.Scan() || followed.Text() != want {
			t.Errorf("followed %q, want %q, error %v", followed.Text(), want, followed.Err())
		}
	}
	if err := member.WritePreviousLog("before the restart"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(read(corev1.PodLogOptions{Previous: true})); err != nil || string(text) != "before the restart\n" {
		t.Errorf("log of the container before %q, error %v", text, err)
	}
}

func runningPod(t *testing.T, client *kubernetes.Clientset, namespace string) (name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) string {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return "no pod runs"
		}
		name = pods.Items[0].Name
		return ""
	})
	return name
}
