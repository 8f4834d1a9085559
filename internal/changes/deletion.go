package changes

import (
	"maps"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Deletion decides what becomes of the objects of a source that is being deleted, with spec.deletionPolicy: Delete. Those
// are deleted that this source has applied last; what is being deleted already is Pending.
func Deletion(source *v1alpha1.GitSource, hub Hub) Plan {
	var p Plan
	used := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(hub)) { // FleetMiniClusters first
		obj := hub[key]
		if !BelongsTo(obj, source.Name) {
			continue
		}
		c := Change{Key: key, Action: v1alpha1.ChangeKeep, Path: FileOf(obj), Have: obj}
		switch {
		case appliedByAnother(source, obj):
			c.Message = "this GitSource has not applied it"
		case pruneDisabledBy(obj) != "":
			c.Message = pruneDisabledBy(obj)
		case used[key]:
			c.Message = whyUsed
		case !obj.GetDeletionTimestamp().IsZero():
			p.Pending = append(p.Pending, key)
			continue
		default:
			c.Action, c.Message = v1alpha1.ChangeDelete, "its GitSource is being deleted"
		}
		if c.Action == v1alpha1.ChangeKeep {
			maps.Copy(used, hub.placementsOf([]string{key}))
		}
		p.Changes = append(p.Changes, c)
	}
	return p
}
