package members

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// AwaitDrained waits until no run is live on a member that is drained.
func (h *Hub) AwaitDrained(ctx context.Context, name string, timeout time.Duration) error {
	told := ""
	m := &v1alpha1.MemberCluster{}
	return await(ctx, timeout, func() string {
		return fmt.Sprintf("member %s stays drained, and runs are still live: %s", name, messageOf(m, v1alpha1.ConditionDrained))
	}, func(ctx context.Context) (bool, error) {
		var err error
		if m, err = h.get(ctx, name); err != nil {
			return false, err
		}
		h.tellDrained(m, &told)
		return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionDrained), nil
	})
}
