package lab_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/minifleet/minifleet/hack/lab"
)

// One hub and one member serve all tests of this package; tests keep to namespaces of their own.
var shared *lab.Lab

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		if err := startTwo(dir); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared, err = lab.Start(context.Background(), lab.Options{
		Dir: dir,
		Env: lab.Hasty,
		Clusters: []lab.ClusterSpec{
			{Name: "hub"},
			{Name: "member", PodSeconds: 1, Logs: true, Nodes: []lab.Node{
				{Name: "large", CPU: "64", Memory: "256Gi", GPUs: 4, Labels: map[string]string{"size": "large"}},
				{Name: "small", CPU: "8", Memory: "32Gi"},
			}},
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

func clientFor(t *testing.T, cluster *lab.Cluster) *kubernetes.Clientset {
	t.Helper()
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually asks until the answer is "", and fails with the last answer after a minute.
func eventually(t *testing.T, ask func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		answer := ask(ctx)
		if answer == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after a minute still: %s", answer)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// needsOwned skips a test that does to clusters what can only be done to those of the lab.
func needsOwned(t *testing.T) {
	t.Helper()
	if !shared.Cluster("member").Owned() {
		t.Skip("the clusters stand in from " + lab.StandInEnv)
	}
}
