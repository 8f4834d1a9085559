package members

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// List returns the members of a hub, by name.
func (h *Hub) List(ctx context.Context) (*v1alpha1.MemberClusterList, error) {
	list := &v1alpha1.MemberClusterList{}
	if err := h.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the members of the hub: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

const nothing = "-"

// WriteTable writes members as a table for people.
func WriteTable(out io.Writer, items []v1alpha1.MemberCluster, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	rows := [][]string{{"NAME", "READY", "VERSION", "NODES", "CPU FREE/TOTAL", "MEMORY FREE/TOTAL", "GPUS FREE/TOTAL", "USE", "LAST HEARD", "LABELS"}}
	for i := range items {
		rows = append(rows, row(&items[i], now))
	}
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(r, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

func row(m *v1alpha1.MemberCluster, now time.Time) []string {
	nodes, cpu, memory, gpus := nothing, nothing, nothing, nothing
	if c := m.Status.Capacity; c != nil {
		nodes, cpu, memory, gpus = fmt.Sprint(c.Nodes), c.CPU, c.Memory, cmp.Or(c.GPUs, nothing)
	}
	return []string{
		m.Name, ready(m), cmp.Or(m.Status.Version, nothing), nodes, cpu, memory, gpus, use(m), lastHeard(m, now),
		cmp.Or(labels.FormatLabels(m.Labels), nothing),
	}
}

// ready is True, or STATUS (REASON).
func ready(m *v1alpha1.MemberCluster) string {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return string(metav1.ConditionUnknown)
	case c.Status == metav1.ConditionTrue:
		return string(c.Status)
	default:
		return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
	}
}

// use says whether new runs may begin on a member, and how far it is in being drained.
func use(m *v1alpha1.MemberCluster) string {
	drained := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionDrained)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "deleting"
	case drained != nil && drained.Status == metav1.ConditionTrue:
		return "drained"
	case drained != nil || m.Annotations[v1alpha1.AnnotationDrain] == "true":
		return "draining"
	case m.Spec.Suspend:
		return "cordoned"
	default:
		return "yes"
	}
}

// lastHeard is how long ago the last answer of a member came, as far as the hub knows.
func lastHeard(m *v1alpha1.MemberCluster, now time.Time) string {
	switch {
	case m.Status.LastHeardTime != nil:
		return duration.HumanDuration(now.Sub(m.Status.LastHeardTime.Time)) + " ago"
	case meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady):
		return "now"
	default:
		return nothing
	}
}
