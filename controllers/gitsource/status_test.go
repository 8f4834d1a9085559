package gitsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// hubOfSource is a hub with a source that was not reconciled yet.
type hubOfSource struct {
	*Reconciler
	source *v1alpha1.GitSource
}

func newHubOfSource(t *testing.T, objects ...client.Object) *hubOfSource {
	t.Helper()
	source := newSource()
	source.UID, source.Spec.URL = "u1", "https://git.example.org/fleet"
	hub := newHub(t, append(objects, source)...)
	return &hubOfSource{&Reconciler{Client: hub, Live: hub, Now: func() time.Time { return noon }}, source}
}

// sync applies a tree as Reconcile does, and reports it to the status.
func (h *hubOfSource) sync(t *testing.T, tr *tree) progress {
	t.Helper()
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(h.source), h.source); err != nil {
		t.Fatal(err)
	}
	have, err := readHub(t.Context(), h.Client, "hpc")
	if err != nil {
		t.Fatal(err)
	}
	done := progress{tree: tr, plan: changes.Compare(input(h.source, tr, have))}
	if !isDry(h.source) {
		if done, err = h.carryOut(t.Context(), h.source, done); err != nil {
			t.Fatal(err)
		}
	}
	setStatus(h.source, done, nil, h.Now())
	if err := h.Client.Status().Update(t.Context(), h.source); err != nil {
		t.Fatal(err)
	}
	return done
}

// edit changes the source as a person does.
func (h *hubOfSource) edit(t *testing.T, change func(*v1alpha1.GitSource)) {
	t.Helper()
	change(h.source)
	if err := h.Client.Update(t.Context(), h.source); err != nil {
		t.Fatal(err)
	}
}

// treeAt is a tree of another commit than treeOf.
func treeAt(hash string, objects ...parse.Object) *tree {
	t := treeOf(objects...)
	t.commit, t.revision = strings.Repeat(hash, 40), "main@"+strings.Repeat(hash, 7)
	t.about = fetch.About{Subject: "Commit " + hash, Author: "Ada", Time: noon}
	return t
}

func TestHistoryOfChanges(t *testing.T) {
	h := newHubOfSource(t)
	objects := func(commands ...string) (out []parse.Object) {
		for i, command := range commands {
			if command != "" {
				out = append(out, running(fmt.Sprint("m", i), command))
			}
		}
		return out
	}
	for i, step := range []struct {
		tree   *tree
		before func()
		want   []string // HASH: created, updated, deleted, objects; latest first
	}{
		{tree: treeAt("a", objects("1", "1", "1")...), want: []string{"a 3 0 0 [+FleetMiniCluster/m0 +FleetMiniCluster/m1 +FleetMiniCluster/m2]"}},
		{tree: treeAt("a", objects("1", "1", "1")...), want: []string{"a 3 0 0 [+FleetMiniCluster/m0 +FleetMiniCluster/m1 +FleetMiniCluster/m2]"}},
		{tree: treeAt("b", objects("1", "2", "")...), want: []string{"b 0 1 1 [~FleetMiniCluster/m1 -FleetMiniCluster/m2]", "a 3 0 0 [+FleetMiniCluster/m0 +FleetMiniCluster/m1 +FleetMiniCluster/m2]"}},
		{ // what somebody has edited is put back, and the commit has not changed that
			before: func() {
				var f v1alpha1.FleetMiniCluster
				if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "hpc", Name: "m0"}, &f); err != nil {
					t.Fatal(err)
				}
				f.Spec.MiniCluster.Size = 7
				if err := h.Client.Update(t.Context(), &f); err != nil {
					t.Fatal(err)
				}
			},
			tree: treeAt("b", objects("1", "2", "")...), want: []string{"b 0 1 1 [~FleetMiniCluster/m1 -FleetMiniCluster/m2]", "a 3 0 0 [+FleetMiniCluster/m0 +FleetMiniCluster/m1 +FleetMiniCluster/m2]"}},
		{tree: treeAt("c", objects("1", "2", "")...), want: []string{"c", "b 0 1 1 [~FleetMiniCluster/m1 -FleetMiniCluster/m2]", "a 3 0 0 [+FleetMiniCluster/m0 +FleetMiniCluster/m1 +FleetMiniCluster/m2]"}},
	} {
		if step.before != nil {
			step.before()
		}
		h.sync(t, step.tree)
		var got []string
		for _, c := range h.source.Status.Commits {
			line := c.Hash[:1]
			if c.Changes != nil {
				line += fmt.Sprintf(" %d %d %d %v", c.Changes.Created, c.Changes.Updated, c.Changes.Deleted, c.Changes.Objects)
			}
			if c.AppliedTime == nil || c.Author != "Ada" {
				t.Errorf("step %d: commit %+v", i, c)
			}
			got = append(got, line)
		}
		endDeletions(t, h.Client)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		if got := h.source.Status.LastAttempted; got == nil || got.Hash != step.tree.commit || got.Subject == "" {
			t.Errorf("step %d: attempted %+v", i, got)
		}
	}
}

// Whoever edits the source while it is reconciled has its status made up again, with what the commit has changed.
func TestHistoryAfterConflict(t *testing.T) {
	h := newHubOfSource(t)
	h.Recorder = events.NewFakeRecorder(10)
	tr := treeAt("a", running("m", "one"))
	for i := range 2 {
		source := &v1alpha1.GitSource{}
		if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(h.source), source); err != nil {
			t.Fatal(err)
		}
		have, err := readHub(t.Context(), h.Client, "hpc")
		if err != nil {
			t.Fatal(err)
		}
		done, err := h.carryOut(t.Context(), source, progress{tree: tr, plan: changes.Compare(input(source, tr, have))})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			edited := source.DeepCopy()
			edited.Annotations = map[string]string{"edited": "now"}
			if err := h.Client.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.report(t.Context(), source, done, nil); (err != nil) != (i == 0) {
			t.Fatal(err)
		}
		h.source = source
	}
	if got := h.source.Status.Commits[0].Changes; got == nil || got.Created != 1 || tr.changed != nil {
		t.Errorf("the commit has changed %+v, and not told yet is %v", got, tr.changed)
	}
}

// A suspended source says nothing of dry runs and signatures that it does not ask for any more.
func TestSuspendedForgetsUnasked(t *testing.T) {
	h := newHubOfSource(t)
	h.edit(t, func(s *v1alpha1.GitSource) { s.Spec.Suspend = true })
	h.source.Status.DryRun = &v1alpha1.DryRunStatus{}
	conditions.MarkTrue(h.source, v1alpha1.ConditionSourceVerified, v1alpha1.ReasonSucceeded, "signed")
	if err := h.reportSuspended(t.Context(), h.source); err != nil {
		t.Fatal(err)
	}
	if h.source.Status.DryRun != nil || conditions.Has(h.source, v1alpha1.ConditionSourceVerified) {
		t.Errorf("status %+v", h.source.Status)
	}
}

// Where a source reads from is known before anything of it is applied, so that a URL which is corrected at once has moved.
func TestOriginIsNotedFirst(t *testing.T) {
	h := newHubOfSource(t)
	tr := treeAt("a", running("m", "one"))
	if _, err := h.carryOut(t.Context(), h.source, progress{tree: tr, plan: changes.Compare(input(h.source, tr, changes.Hub{}))}); err != nil {
		t.Fatal(err)
	}
	source := &v1alpha1.GitSource{} // of which no status was written since
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(h.source), source); err != nil {
		t.Fatal(err)
	}
	source.Spec.URL = "https://git.example.org/another"
	if !changes.HasMoved(source) {
		t.Errorf("origin %+v", source.Status.Origin)
	}
}

// endDeletions takes the finalizers from what is being deleted.
func endDeletions(t *testing.T, hub client.Client) {
	t.Helper()
	var all v1alpha1.FleetMiniClusterList
	if err := hub.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if f := &all.Items[i]; !f.DeletionTimestamp.IsZero() {
			f.Finalizers = nil
			if err := hub.Update(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A commit that could be read, and not applied, is the one that was attempted; the last one that was applied stays.
func TestLastAttempted(t *testing.T) {
	h := newHubOfSource(t)
	h.sync(t, treeAt("a", running("m", "one")))
	setStatus(h.source, progress{tree: treeAt("b")}, &sourceError{v1alpha1.ReasonTimedOut, "too slow"}, noon)
	setStatus(h.source, progress{}, &fetch.Error{Reason: v1alpha1.ReasonFetchFailed, Message: "down"}, noon)
	if st := h.source.Status; st.LastAttempted.Hash != strings.Repeat("b", 40) || st.Commit != strings.Repeat("a", 40) || len(st.Commits) != 1 {
		t.Errorf("attempted %v, applied %s, history %v", st.LastAttempted, st.Commit, st.Commits)
	}
}

func TestInventory(t *testing.T) {
	waiting := []client.Object{}
	for i := range 4 {
		f := applyRunning(fmt.Sprint("ran", i), "one")
		f.ResourceVersion, f.Annotations[v1alpha1.AnnotationSourceUID] = "", "u1"
		ranFor(f, "one", "", v1alpha1.RunSucceeded)
		waiting = append(waiting, f)
	}
	kept, deleted, theirs := onHub("kept", "fleet", "kept.yaml"), onHub("deleted", "fleet", "deleted.yaml"), onHub("theirs", "other", "x.yaml")
	kept.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled
	deleted.Finalizers = []string{v1alpha1.Finalizer}
	for _, o := range []client.Object{kept, deleted, theirs} {
		o.SetResourceVersion("")
		waiting = append(waiting, o)
	}
	h := newHubOfSource(t, waiting...)
	objects := []parse.Object{running("new", "one"), running("theirs", "one")}
	for i := range 4 {
		objects = append(objects, running(fmt.Sprint("ran", i), "two"))
	}
	refused := running("refused", "one")
	refused.FleetMiniCluster.Annotations = map[string]string{v1alpha1.AnnotationPrune: "misprint"}
	h.sync(t, treeOf(append(objects, refused)...))
	want := []v1alpha1.InventoryEntry{
		{Object: "FleetMiniCluster/deleted", Path: "deleted.yaml", State: v1alpha1.InventoryDeleting},
		{Object: "FleetMiniCluster/kept", Path: "kept.yaml", State: v1alpha1.InventoryKept},
		{Object: "FleetMiniCluster/new", Path: "new.yaml", State: v1alpha1.InventorySynced},
	}
	for i := range 4 {
		want = append(want, v1alpha1.InventoryEntry{Object: fmt.Sprint("FleetMiniCluster/ran", i), Path: fmt.Sprintf("ran%d.yaml", i), State: v1alpha1.InventoryWaiting})
	}
	want = append(want, v1alpha1.InventoryEntry{Object: "FleetMiniCluster/refused", Path: "refused.yaml", State: v1alpha1.InventoryOutOfSync})
	if diff := cmp.Diff(want, h.source.Status.Inventory); diff != "" || h.source.Status.InventoryCount != int32(len(want)) {
		t.Errorf("%d objects (-want +got):\n%s", h.source.Status.InventoryCount, diff)
	}
}

// What was done before an error is in the inventory, and what was not is out of sync.
func TestInventoryAfterAnError(t *testing.T) {
	source, tr := newSource(), treeOf(running("a", "one"), running("b", "one"))
	done := progress{tree: tr, plan: *planOf(source, tr, changes.Hub{}), carriedOut: true, applied: applied{changed: []string{"FleetMiniCluster/a"}}}
	setStatus(source, done, errors.New("down"), time.Now())
	want := []v1alpha1.InventoryEntry{
		{Object: "FleetMiniCluster/a", Path: "a.yaml", State: v1alpha1.InventorySynced},
		{Object: "FleetMiniCluster/b", Path: "b.yaml", State: v1alpha1.InventoryOutOfSync},
	}
	if diff := cmp.Diff(want, source.Status.Inventory); diff != "" {
		t.Error(diff)
	}
}

// A dry run says what applying does then, and changes nothing but the status.
func TestDryRun(t *testing.T) {
	h := newHubOfSource(t)
	h.sync(t, treeAt("a", running("m0", "one"), running("m1", "one"), running("m2", "one")))
	applied := h.source.DeepCopy()
	before, err := readHub(t.Context(), h.Client, "hpc")
	if err != nil {
		t.Fatal(err)
	}
	h.edit(t, func(s *v1alpha1.GitSource) {
		s.Spec.Mode, s.Spec.URL, s.Spec.DeletionPolicy = v1alpha1.SourceDryRun, "https://git.example.org/another", v1alpha1.SourceDelete
	})
	next := treeAt("b", running("m0", "one"), running("m1", "two"), running("new", "one"))
	h.sync(t, next)
	after, err := readHub(t.Context(), h.Client, "hpc")
	if err != nil {
		t.Fatal(err)
	}
	if got := happened(before, after); len(got) > 0 {
		t.Errorf("a dry run has written %v", got)
	}
	want := []v1alpha1.PlannedChange{
		{Object: "FleetMiniCluster/m1", Action: v1alpha1.ChangeUpdate, Path: "m1.yaml"},
		{Object: "FleetMiniCluster/new", Action: v1alpha1.ChangeCreate, Path: "new.yaml"},
		{Object: "FleetMiniCluster/m2", Action: v1alpha1.ChangeDelete, Path: "m2.yaml", NeedsApproval: true,
			Message: "it would wait for approval: spec.url or the path of the GitSource has changed"},
	}
	st := &h.source.Status
	if diff := cmp.Diff(want, st.DryRun.Changes); diff != "" || st.DryRun.Total != 3 || st.DryRun.Commit.Hash != next.commit {
		t.Errorf("dry run of %s, %d changes (-want +got):\n%s", st.DryRun.Commit.Hash, st.DryRun.Total, diff)
	}
	message := "dry run of revision main@bbbbbbb: 1 to create, 1 to update, 1 to delete (1 of them once approved); nothing of it is done while spec.mode is DryRun"
	if diff := cmp.Diff("True DryRun "+message, readyOf(h.source)+" "+conditions.GetMessage(h.source, v1alpha1.ConditionReady)); diff != "" {
		t.Errorf("ready (-want +got):\n%s", diff)
	}
	same := cmpopts.IgnoreFields(v1alpha1.GitSourceStatus{}, "DryRun", "Conditions", "LastAttempted")
	if diff := cmp.Diff(applied.Status, *st, same, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what is applied has changed in the status:\n%s", diff)
	}

	h.edit(t, func(s *v1alpha1.GitSource) { s.Spec.Mode = v1alpha1.SourceApply })
	done := h.sync(t, next)
	if st.DryRun != nil || len(done.applied.changed) != 2 || len(done.pruned.deleted) != 0 || !st.Origin.Moving {
		t.Errorf("applied: %v %v, dry run %v, origin %v", done.applied, done.pruned, st.DryRun, st.Origin)
	}
}

// What comes of another repository waits, however small, and so it does when part of it has been applied.
func TestMovedSource(t *testing.T) {
	h := newHubOfSource(t)
	all := []parse.Object{running("m0", "one"), running("m1", "one"), running("m2", "one"), running("m3", "one")}
	h.sync(t, treeAt("a", all...))
	here := h.source.Spec.URL
	move := func(url string) { h.edit(t, func(s *v1alpha1.GitSource) { s.Spec.URL = url }) }
	approve := func(value string) {
		h.edit(t, func(s *v1alpha1.GitSource) { s.Annotations = map[string]string{v1alpha1.AnnotationApprovePrune: value} })
	}
	waits := func(step string, tr *tree, want ...string) {
		t.Helper()
		done := h.sync(t, tr)
		if diff := cmp.Diff(want, done.pruned.blocked, cmpopts.EquateEmpty()); diff != "" || len(done.pruned.deleted) > 0 {
			t.Errorf("%s: deleted %v, waiting (-want +got):\n%s", step, done.pruned.deleted, diff)
		}
	}
	move(here + ".git")
	waits("another spelling", treeAt("a", all...))
	move(here + "2")
	waits("another repository", treeAt("b", append(all[1:], running("new", "one"))...), "FleetMiniCluster/m0")
	move(here)
	waits("back, with something of the other one", treeAt("a", all...), "FleetMiniCluster/new")
	approve(strings.Repeat("b", 40))
	waits("approved, for another commit", treeAt("a", all...), "FleetMiniCluster/new")
	approve(strings.Repeat("a", 40))
	if done := h.sync(t, treeAt("a", all...)); cmp.Diff([]string{"FleetMiniCluster/new"}, done.pruned.deleted) != "" {
		t.Errorf("approved: %+v", done.pruned)
	}
	endDeletions(t, h.Client)
	h.edit(t, func(s *v1alpha1.GitSource) { s.Spec.Path = "sub" })
	waits("the same commit at another path", treeAt("a", all[1:]...), "FleetMiniCluster/m0")
	if got, want := h.source.Approval(v1alpha1.AnnotationApprovePrune, strings.Repeat("a", 40)), strings.Repeat("a", 40)+"#2"; got != want {
		t.Errorf("it takes %q to approve that, want %q", got, want)
	}
	approve(strings.Repeat("a", 40) + "#2")
	if done := h.sync(t, treeAt("a", all[1:]...)); cmp.Diff([]string{"FleetMiniCluster/m0"}, done.pruned.deleted) != "" || h.source.Status.Origin.Moving {
		t.Errorf("approved: %+v", done.pruned)
	}
}

// A reconciliation that changes nothing gives the same status, whatever it found.
func TestStatusesAreStable(t *testing.T) {
	for name, tc := range outcomes {
		if tc.done == nil {
			continue
		}
		source, done := newSource(), tc.done()
		done.tree.about.Time = noon
		setStatus(source, done, tc.err, noon)
		first := source.DeepCopy()
		setStatus(source, done, tc.err, noon.Add(time.Hour))
		if diff := cmp.Diff(first.Status, source.Status); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// The largest status that a repository can cause is well below what etcd takes in one request.
func TestLargestStatus(t *testing.T) {
	const wide = "<" // takes six bytes in JSON
	long := strings.Repeat(wide, 1200)
	name := func(i int) string { return fmt.Sprintf("%d-", i) + strings.Repeat("n", 240) }
	source := newSource()
	done := progress{tree: treeOf(), carriedOut: true, plan: changes.Plan{Through: true}}
	for i := range 1100 {
		o := parse.Object{Kind: parse.KindPlacement, Name: name(i), Path: long}
		done.tree.parsed.Objects = append(done.tree.parsed.Objects, o)
		if i < 100 {
			done.tree.parsed.Problems = append(done.tree.parsed.Problems, parse.Problem{Path: long, Object: long, Field: long, Message: long})
		}
		done.plan.Changes = append(done.plan.Changes, changes.Change{Key: "Placement/" + name(i), Action: v1alpha1.ChangeUpdate, Path: long, Message: long})
		done.pruned.blocked = append(done.pruned.blocked, "Placement/"+name(i))
		done.applied.blocked = append(done.applied.blocked, "Placement/"+name(i))
		done.declared.needs = append(done.declared.needs, v1alpha1.DeclaredNeed{
			Name: strings.Repeat("n", 63), Digest: strings.Repeat("d", 64), Overrides: strings.Repeat("d", 64), Permissions: v1alpha1.Permissions(),
		})
	}
	done.plan.Prune.Why, done.plan.Runs.Why = long, long
	for i := range v1alpha1.MaxCommits {
		done.tree.commit, done.tree.revision = fmt.Sprintf("%040d", i), strings.Repeat("r", 255)+"@0123456"
		done.tree.about = fetch.About{Subject: long, Author: long, Time: noon}
		done.tree.changed = nil
		for j := range 1100 {
			done.tree.changed = append(done.tree.changed, "+Placement/"+name(j))
		}
		setStatus(source, done, nil, noon)
	}
	source.Spec.Mode = v1alpha1.SourceDryRun
	conditionsBefore := source.Status.Conditions
	setStatus(source, done, nil, noon)
	source.Status.Conditions = append(source.Status.Conditions, conditionsBefore...)
	text, err := json.Marshal(source.Status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(text))
	if st := source.Status; len(text) > 1<<20 || len(st.Commits) != v1alpha1.MaxCommits || st.InventoryCount != 1100 || len(st.Inventory) == 0 || len(st.DryRun.Changes) == 0 || len(st.Problems) == 0 {
		t.Errorf("%d bytes, %d commits, %d of %d objects, %d changes, %d problems", len(text), len(st.Commits), len(st.Inventory), st.InventoryCount, len(st.DryRun.Changes), len(st.Problems))
	}
	for _, c := range source.Status.Commits {
		if len(c.Subject) > sanitize.MaxNote || c.Changes == nil || len(c.Changes.Objects) > v1alpha1.MaxChanges || c.Changes.Created != 1100 {
			t.Errorf("commit %+v", c)
		}
	}
}

// A reconciliation that finds everything in sync changes nothing, and one that finds a single object edited or deleted puts
// that one back: what was listed while everything was in sync is not listed then.
func TestUnchangedIsToldFromOneResourceVersion(t *testing.T) {
	h, tr := newHubOfSource(t), treeOf(running("a", "one"), running("b", "one"), running("c", "one"))
	synced := func(name string) v1alpha1.InventoryEntry {
		return v1alpha1.InventoryEntry{Object: "FleetMiniCluster/" + name, Path: name + ".yaml", State: v1alpha1.InventorySynced}
	}
	deleting := synced("b")
	deleting.State = v1alpha1.InventoryDeleting
	b := &v1alpha1.FleetMiniCluster{}
	edit := func(change func()) func() {
		return func() {
			if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "hpc", Name: "b"}, b); err != nil {
				t.Fatal(err)
			}
			change()
			if err := h.Client.Update(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name    string
		before  func()
		changed []string
		want    v1alpha1.InventoryEntry
	}{
		{"the first time", func() {}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "FleetMiniCluster/c"}, synced("b")},
		{"nothing changed", func() {}, nil, synced("b")},
		{"nothing changed again", func() {}, nil, synced("b")},
		{"another annotation", edit(func() { b.Annotations["note"] = "x" }), nil, synced("b")},
		{"another spec", edit(func() { b.Spec.MiniCluster.Containers[0].Command = "two" }), []string{"FleetMiniCluster/b"}, synced("b")},
		{"put back", func() {}, nil, synced("b")},
		{"being deleted", edit(func() {
			if err := h.Client.Delete(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
		}), nil, deleting},
		{"deleted", edit(func() { b.Finalizers = nil }), []string{"FleetMiniCluster/b"}, synced("b")},
		{"created anew", func() {}, nil, synced("b")},
	} {
		step.before()
		done := h.sync(t, tr)
		if diff := cmp.Diff(step.changed, done.applied.changed); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
		want := []v1alpha1.InventoryEntry{synced("a"), step.want, synced("c")}
		if diff := cmp.Diff(want, h.source.Status.Inventory); diff != "" || h.source.Status.InventoryCount != 3 {
			t.Errorf("%s: %d objects (-want +got):\n%s", step.name, h.source.Status.InventoryCount, diff)
		}
	}
}

func TestSameStatus(t *testing.T) {
	status := func() *v1alpha1.GitSourceStatus {
		return &v1alpha1.GitSourceStatus{Revision: "r", Inventory: []v1alpha1.InventoryEntry{{Object: "a", State: v1alpha1.InventorySynced}}}
	}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.GitSourceStatus)
		want bool
	}{
		"the same":         {func(*v1alpha1.GitSourceStatus) {}, true},
		"an empty list":    {func(st *v1alpha1.GitSourceStatus) { st.Problems = []v1alpha1.FileProblem{} }, true},
		"another revision": {func(st *v1alpha1.GitSourceStatus) { st.Revision = "s" }, false},
		"a state":          {func(st *v1alpha1.GitSourceStatus) { st.Inventory[0].State = v1alpha1.InventoryKept }, false},
		"nothing listed":   {func(st *v1alpha1.GitSourceStatus) { st.Inventory = nil }, false},
		"a list beside it": {func(st *v1alpha1.GitSourceStatus) { st.Prune = []string{"a"} }, false},
	} {
		before, after := status(), status()
		tc.edit(after)
		if got := sameStatus(*before, *after); got != tc.want || len(before.Inventory) != 1 {
			t.Errorf("%s: %t, want %t; %d listed", name, got, tc.want, len(before.Inventory))
		}
	}
}
