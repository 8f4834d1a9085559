package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

const (
	// recordSuffix makes the name of a FleetMiniCluster that of its record.
	recordSuffix = "-minifleet-runs"
	// recordKey holds a JSON list of v1alpha1.EndedRun, oldest first.
	recordKey = "runs"
	// maxRecord bounds what is read of a record, in bytes: 50 runs are far less.
	maxRecord = 256 << 10
)

// Record is what a member has on record of the runs of a FleetMiniCluster there.
type Record struct {
	// Ended are the runs that have ended, or whose Job somebody else was deleting, oldest first.
	Ended []v1alpha1.EndedRun
	// version is what the cache has; empty if there is no record.
	version string
}

// Record returns the record of a FleetMiniCluster from the cache; it is empty where there is none, or none that can be
// read. A *Conflict is somebody else's ConfigMap. What is on record in other namespaces, where it ran before, counts.
func (m *Member) Record(ctx context.Context, key types.NamespacedName, origin fleet.Origin) (Record, error) {
	if key.Namespace == "" {
		return Record{Ended: m.recordElsewhere(ctx, key, origin, nil)}, nil
	}
	var have corev1.ConfigMap
	err := m.GetClient().Get(ctx, recordName(key), &have)
	switch {
	case apierrors.IsNotFound(err):
		return Record{Ended: m.recordElsewhere(ctx, key, origin, nil)}, nil
	case err != nil:
		return Record{}, err
	case !origin.Owns(&have):
		return Record{}, conflictOf(origin, "ConfigMap", &have)
	}
	return Record{m.recordElsewhere(ctx, key, origin, parseEnded(have.Data[recordKey])), have.ResourceVersion}, nil
}

// recordElsewhere adds to a record what is on record in other namespaces: it may have run there since.
func (m *Member) recordElsewhere(ctx context.Context, key types.NamespacedName, origin fleet.Origin, own []v1alpha1.EndedRun) []v1alpha1.EndedRun {
	out := own
	for _, cm := range m.records(ctx, origin) {
		if client.ObjectKeyFromObject(cm) != recordName(key) && m.trusts(ctx, origin, cm.Namespace) {
			out = mergeEnded(overElsewhere(parseEnded(cm.Data[recordKey])), out)
		}
	}
	return out
}

// overElsewhere calls runs failed whose Job was being deleted in another namespace, where nobody looks for their pods.
func overElsewhere(record []v1alpha1.EndedRun) []v1alpha1.EndedRun {
	for i := range record {
		if record[i].BeingDeleted() {
			record[i].State, record[i].StartTime = v1alpha1.RunFailed, nil
		}
	}
	return record
}

// mergeEnded are the runs of two records, in the order in which they ended. Of one that is in both, the second counts, but
// for one that has succeeded as the first has it, and that has not ended as the second has it.
func mergeEnded(first, second []v1alpha1.EndedRun) []v1alpha1.EndedRun {
	if len(first) == 0 {
		return second
	}
	var out []v1alpha1.EndedRun
	for _, list := range [][]v1alpha1.EndedRun{first, second} {
		for _, e := range list {
			i := slices.IndexFunc(out, func(o v1alpha1.EndedRun) bool { return o.ID == e.ID })
			switch {
			case i < 0:
				out = append(out, e)
			case out[i].State != v1alpha1.RunSucceeded && !e.BeingDeleted():
				out[i] = e
			}
		}
	}
	slices.SortStableFunc(out, func(a, b v1alpha1.EndedRun) int { return endOf(&a).Compare(endOf(&b)) })
	return out[max(len(out)-v1alpha1.MaxEndedRuns, 0):]
}

func endOf(e *v1alpha1.EndedRun) time.Time {
	if e.CompletionTime == nil {
		return time.Time{}
	}
	return e.CompletionTime.Time
}

// recordedStops are why runs were stopped that are on record.
var recordedStops = []v1alpha1.StopReason{"", v1alpha1.StopCancelled, v1alpha1.StopDeleted}

// parseEnded reads a record. Whoever may write there may have written anything: what makes no sense is dropped.
func parseEnded(text string) []v1alpha1.EndedRun {
	var all, out []v1alpha1.EndedRun
	if len(text) > maxRecord || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	for _, e := range all {
		if fleet.IsRunID(e.ID) && (e.State.Ended() || e.BeingDeleted() && e.CompletionTime != nil) && len(e.Digest) <= 64 && len(e.RerunAt) <= 253 && len(e.Revision) <= 253 && e.Attempt >= 0 && slices.Contains(recordedStops, e.Stop) {
			out = append(out, e)
		}
	}
	return out[max(len(out)-v1alpha1.MaxEndedRuns, 0):]
}

// HasRecord says whether the cache shows a record of a FleetMiniCluster.
func (m *Member) HasRecord(ctx context.Context, key types.NamespacedName, origin fleet.Origin) bool {
	r, err := m.Record(ctx, key, origin)
	return err == nil && r.version != "" || len(m.records(ctx, origin)) > 0
}

// WriteRecord writes a record in place of the one that was read. It is one request, and gives a conflict if there is
// another one by now.
func (m *Member) WriteRecord(ctx context.Context, key types.NamespacedName, origin fleet.Origin, r Record) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	text, err := json.Marshal(r.Ended)
	if err != nil {
		return fmt.Errorf("the record of %s: %w", key, err)
	}
	name := recordName(key)
	record := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, ResourceVersion: r.version,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: key.Name, v1alpha1.LabelRecord: recordKey,
			},
			Annotations: origin.Annotations(),
		},
		Data: map[string]string{recordKey: string(text)},
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	return m.GetClient().Patch(ctx, record, client.Apply, //nolint:staticcheck // as Apply has it
		client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
}

func recordName(key types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name + recordSuffix}
}
