package gitsource

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Bounds of the lists of a status, in bytes of JSON. With everything else that a status holds they stay well below the
// 1.5 MiB of one request to etcd, whatever a repository holds.
const (
	maxInventoryBytes = 160 << 10
	maxProblemsBytes  = 96 << 10
	maxPlannedBytes   = 96 << 10
	maxChangesBytes   = 2 << 10
	// maxPath is of a path in such a list, without escapes.
	maxPath = 256
	// maxPlannedMessage is of a message of a dry run.
	maxPlannedMessage = 300
)

// within returns the first items, at most so many and of so many bytes of JSON.
func within[T any](items []T, most, bytes int) []T {
	for i := range items {
		text, err := json.Marshal(items[i])
		if bytes -= len(text) + 1; bytes < 0 || i == most || err != nil {
			return items[:i]
		}
	}
	return items
}

// inventoryOf are the objects of a source after a tree was applied, by name: those that Git declares, unless they belong
// to somebody else, and those that it does not and that are on the hub.
func inventoryOf(source string, done progress) []v1alpha1.InventoryEntry {
	states, paths, theirs := statesOf(done), map[string]string{}, map[string]bool{}
	for i := range done.plan.Changes {
		c := &done.plan.Changes[i]
		paths[c.Key] = c.Path
		theirs[c.Key] = c.Have != nil && !changes.BelongsTo(c.Have, source)
	}
	var out []v1alpha1.InventoryEntry
	add := func(key, path string, state v1alpha1.InventoryState) {
		out = append(out, v1alpha1.InventoryEntry{Object: key, Path: sanitize.Text(path, maxPath), State: state})
	}
	for i := range done.tree.parsed.Objects {
		o := &done.tree.parsed.Objects[i]
		key := changes.Key(o.Kind, o.Name)
		if !theirs[key] {
			add(key, o.Path, cmp.Or(states[key], v1alpha1.InventorySynced))
		}
		delete(states, key)
	}
	for key, state := range states {
		add(key, paths[key], state)
	}
	slices.SortFunc(out, func(a, b v1alpha1.InventoryEntry) int { return cmp.Compare(a.Object, b.Object) })
	return out
}

// statesOf are the states of all objects but those that are declared and in sync.
func statesOf(done progress) map[string]v1alpha1.InventoryState {
	out := map[string]v1alpha1.InventoryState{}
	set := func(keys []string, state v1alpha1.InventoryState) {
		for _, key := range keys {
			out[key] = state
		}
	}
	set(done.plan.Keys(v1alpha1.ChangeKeep, v1alpha1.ChangeDelete), v1alpha1.InventoryKept) // a deletion may have been denied
	deleted, changed := setOf(done.pruned.deleted), setOf(done.applied.changed)
	for i := range done.plan.Changes {
		c := &done.plan.Changes[i]
		if c.Object != nil && !changed[c.Key] {
			out[c.Key] = v1alpha1.InventoryOutOfSync
		}
		if c.Action == v1alpha1.ChangeDelete && deleted[c.Key] {
			if out[c.Key] = v1alpha1.InventoryDeleting; len(c.Have.GetFinalizers()) == 0 {
				delete(out, c.Key) // nothing holds its deletion up
			}
		}
	}
	set(done.applied.refused, v1alpha1.InventoryOutOfSync)
	set(done.plan.Prune.Keys, v1alpha1.InventoryWaiting)
	set(done.plan.Runs.Keys, v1alpha1.InventoryWaiting)
	set(done.plan.Deleting, v1alpha1.InventoryDeleting)
	set(done.plan.Pending, v1alpha1.InventoryDeleting)
	return out
}

// setInventory lists the objects of a source. Where everything is in sync they are those that the tree declares, listed
// once.
func setInventory(source *v1alpha1.GitSource, done progress) {
	t, inSync := done.tree, done.plan.IsEmpty()
	if !inSync || t.inventory == nil {
		all := inventoryOf(source.Name, done)
		source.Status.InventoryCount = int32(len(all)) //nolint:gosec // far fewer than 2³¹
		source.Status.Inventory = within(all, v1alpha1.MaxInventory, maxInventoryBytes)
		if inSync {
			t.inventory = slices.Clone(source.Status.Inventory)
		}
		return
	}
	source.Status.InventoryCount = int32(len(t.parsed.Objects)) //nolint:gosec // far fewer than 2³¹
	source.Status.Inventory = slices.Clone(t.inventory)         // an answer of the hub is decoded into that of the status
}
