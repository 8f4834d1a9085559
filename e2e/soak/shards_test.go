package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/hack/lab"
)

// shard is what one controller has: members, of which the first is in the red zone, and FleetMiniClusters.
type shard struct {
	key     string // of --shard; empty without
	members []string
	names   []string // of its FleetMiniClusters, the last of which is one of taken
}

// Members of the second shard.
const cobalt, dolerite = "cobalt", "dolerite"

// A fleet has one controller for all, or two with a shard each, in the same namespaces of the same hub.
var (
	undivided = []shard{{members: []string{alpine, basalt}, names: []string{"ant", "bee", "cat", "dog", "elk", "taken"}}}
	divided   = []shard{
		{key: "east", members: undivided[0].members, names: undivided[0].names},
		{key: "west", members: []string{cobalt, dolerite}, names: []string{"fox", "gnu", "hen", "ibis", "jay", "seized"}},
	}
)

// witness is the name of a FleetMiniCluster that is created last.
func (s shard) witness() string { return suffixed("witness", s.key) }

func suffixed(name, key string) string {
	if key == "" {
		return name
	}
	return name + "-" + key
}

// labelled are the labels of an object of a shard.
func labelled(key string) map[string]string {
	if key == "" {
		return map[string]string{}
	}
	return map[string]string{v1alpha1.LabelShard: key}
}

func membersOf(shards []shard) []string {
	var out []string
	for _, s := range shards {
		out = append(out, s.members...)
	}
	return out
}

// keysOf are the keys of the shards that a step is about: of one, or with "" of all.
func keysOf(shards []shard, struck string) []string {
	var out []string
	for _, s := range shards {
		if struck == "" || s.key == struck {
			out = append(out, s.key)
		}
	}
	return out
}

// keyOf is the shard of a member or a FleetMiniCluster, by its name, and whether it is of any.
func keyOf(shards []shard, name string) (key string, ok bool) {
	for _, s := range shards {
		if slices.Contains(s.members, name) || slices.Contains(s.names, name) || name == s.witness() {
			return s.key, true
		}
	}
	return "", false
}

// directedShards are directed schedules for both shards.
var directedShards = []schedule{
	// The one is not there, and its member is away: the other drains a member, and is killed while it does.
	{"one of two shards is not there", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60, shard: "east"},
		{do: "create", on: "red", name: "fox", arg: traitOne, n: 60, shard: "west"},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "await", on: cobalt, name: "fox", arg: "pods"},
		{do: "await", on: cobalt, name: "fox", arg: running},
		{do: "stop-hub", shard: "west"},
		{do: "break", on: cobalt, arg: "refuse"},
		{do: "place", name: "ant"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "drain", on: alpine, arg: "true"},
		{do: "kill-hub", shard: "east"},
		{do: "await", on: basalt, name: "ant", arg: "pods"},
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "drain", on: alpine, arg: "false"},
		{do: "end-pods", on: basalt, name: "ant"},
		{do: "await", on: basalt, name: "ant", arg: succeeded},
		{do: "expect", on: cobalt, name: "fox", arg: running},
		{do: "resume-hub", shard: "west"},
		{do: "kill-hub", shard: "west"},
		{do: "restore", on: cobalt},
		{do: "await", on: cobalt, name: "fox", arg: "pods"},
		{do: "end-pods", on: cobalt, name: "fox"},
		{do: "await", on: cobalt, name: "fox", arg: succeeded},
	}},
	// The hub of both is put back to what it was, and the controller that one shard had comes back.
	{"the hub of two shards is restored", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60, shard: "east"},
		{do: "back-up"},
		{do: "create", on: "red", name: "fox", arg: traitOne, n: 60, shard: "west"},
		{do: "create", on: "blue", name: "gnu", arg: traitOne + "," + traitTidy, shard: "west"},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "await", on: cobalt, name: "fox", arg: "pods"},
		{do: "await", on: dolerite, name: "gnu", arg: succeeded},
		{do: "place", name: "gnu"},
		{do: "restore-backup", arg: oldHubReturns, shard: "west"},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "await", on: cobalt, name: "fox", arg: running},
		{do: "await", on: dolerite, name: "gnu", arg: succeeded},
		{do: "expect", on: cobalt, name: "gnu", arg: "no job"},
		{do: "end-pods", on: alpine, name: "ant"},
		{do: "end-pods", on: cobalt, name: "fox"},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
		{do: "await", on: cobalt, name: "fox", arg: succeeded},
	}},
}

// directedFor are the directed schedules for a fleet. Those for one controller are about the first of two shards.
func directedFor(shards []shard) []schedule {
	if len(shards) == 1 {
		return directed
	}
	out := slices.Clone(directedShards)
	for _, d := range directed {
		d.steps = slices.Clone(d.steps)
		for i := range d.steps {
			d.steps[i].shard = shards[0].key
		}
		out = append(out, d)
	}
	return out
}

// each does something with all, whatever fails.
func each[T any](all []T, do func(T) error) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

// asksItsOwn goes by the name that each controller gives itself, as MiniFleet is one user on all members.
func (h *history) asksItsOwn() []string {
	return h.strays(func(w write) (string, bool) { return keyOf(h.shards, w.cluster) })
}

// isNote says whether a controller has noted in the status of a MemberCluster what of its own may have been left there, and has
// changed nothing else: that is how one shard has another remove it.
func (h *history) isNote(e *lab.AuditEvent, now *v1alpha1.MemberCluster) bool {
	var sent v1alpha1.MemberCluster
	if e.Verb != "update" || e.Object.Subresource != "status" || json.Unmarshal(e.RequestObject, &sent) != nil {
		return false
	}
	was, known := h.statuses[now.Name+"/"+sent.ResourceVersion]
	if !known || len(now.Status.Orphans) <= len(was.Orphans) || !equality.Semantic.DeepEqual(was.Orphans, now.Status.Orphans[:len(was.Orphans)]) {
		return false
	}
	for _, o := range now.Status.Orphans[len(was.Orphans):] {
		if key, ok := keyOf(h.shards, o.Name); !ok || e.UserAgent != clusters.UserAgent(key) {
			return false
		}
	}
	was.Orphans = now.Status.Orphans
	return equality.Semantic.DeepEqual(was, now.Status)
}

// changesItsOwn goes by the same name. Leases are left out: those who renew them bear the name of the library that does.
func (h *history) changesItsOwn() []string {
	return h.strays(func(w write) (string, bool) {
		if w.cluster != hubName || !w.event.Write() || w.event.Object == nil || w.note {
			return "", false
		}
		divided := slices.Contains([]string{"fleetminiclusters", "memberclusters"}, w.event.Object.Resource)
		key, ok := keyOf(h.shards, w.event.Object.Name)
		return key, divided && ok
	})
}

// strays are requests about what is of a shard, as owner says, by the controller of another: of each kind one.
func (h *history) strays(owner func(write) (string, bool)) []string {
	told := map[string]bool{}
	var out []string
	for _, w := range h.asked {
		key, ok := owner(w)
		kind := fmt.Sprint(w.cluster, w.event.UserAgent, w.event.Verb)
		if !ok || w.event.UserAgent == clusters.UserAgent(key) || told[kind] {
			continue
		}
		told[kind] = true
		out = append(out, fmt.Sprintf("%q has sent what is of %s: %s", w.event.UserAgent, v1alpha1.ShardName(key), w))
	}
	return out
}
