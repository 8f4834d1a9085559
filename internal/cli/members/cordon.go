package members

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Cordon keeps new runs away from a member; those that are live go on.
func (h *Hub) Cordon(ctx context.Context, name string) error {
	return h.edit(ctx, name, "cordoned: no new run begins there, and live runs go on", func(m *v1alpha1.MemberCluster) {
		m.Spec.Suspend = true
	})
}

// Uncordon takes back Cordon and Drain.
func (h *Hub) Uncordon(ctx context.Context, name string) error {
	return h.edit(ctx, name, "uncordoned: it may be used", func(m *v1alpha1.MemberCluster) {
		m.Spec.Suspend = false
		delete(m.Annotations, v1alpha1.AnnotationDrain)
	})
}

// Drain has the live runs of a member stopped, which start elsewhere where their placement allows it, keeps new ones away,
// and waits until none is live.
func (h *Hub) Drain(ctx context.Context, name string, timeout time.Duration) error {
	err := h.edit(ctx, name, "drained: its live runs are stopped, and no new one begins there", func(m *v1alpha1.MemberCluster) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationDrain, strconv.FormatBool(true))
	})
	if err != nil {
		return err
	}
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

// edit changes a MemberCluster, and tells what that means.
func (h *Hub) edit(ctx context.Context, name, means string, change func(*v1alpha1.MemberCluster)) error {
	m, err := h.get(ctx, name)
	if err != nil {
		return err
	}
	before := m.DeepCopy()
	change(m)
	if err := h.Client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing member %s: %w", name, err)
	}
	h.Tell("member %s: %s", name, means)
	return nil
}
