package events_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/retry"
)

func TestNotifierQueuesTheRequestsForAMember(t *testing.T) {
	n := &events.Notifier[string]{Requests: func(_ context.Context, member string) []string {
		return []string{member + "/a", member + "/b"}
	}}
	n.Notify("basalt") // before the controller runs
	n.Notify("basalt")
	queue := workqueue.NewTypedRateLimitingQueue(retry.Limiter[string]())
	t.Cleanup(queue.ShutDown)
	if err := n.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	n.Notify("alpine")
	n.Notify("alpine")
	var got []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		got = append(got, request)
		queue.Done(request)
	}
	if diff := cmp.Diff([]string{"basalt/a", "basalt/b", "alpine/a", "alpine/b"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
