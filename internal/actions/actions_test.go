package actions_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

var (
	now    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	lammps = client.ObjectKey{Namespace: "hpc", Name: "lammps"}
	fleet  = client.ObjectKey{Namespace: "hpc", Name: "fleet"}
	alpine = client.ObjectKey{Name: "alpine"}
)

// miniCluster has a live run 3f2a000000 with 4 pods on alpine and one that has ended, 9c1d000000, on basalt.
// fullHash is that of the commit that sources have applied.
const fullHash = "1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b"

func miniCluster(edits ...func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "lammps", Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec: v1alpha1.FleetMiniClusterSpec{
			Placement:   &v1alpha1.PlacementSpec{},
			MiniCluster: fluxv1alpha2.MiniClusterSpec{Size: 4, MaxSize: 8, MinSize: 2, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "lammps"}}},
		},
		Status: v1alpha1.FleetMiniClusterStatus{
			Placement: &v1alpha1.PlacementDecision{Clusters: []string{"alpine", "basalt"}},
			Runs: []v1alpha1.Run{
				{ID: "9c1d000000", Cluster: "basalt", State: v1alpha1.RunSucceeded},
				{ID: "3f2a000000", Cluster: "alpine", State: v1alpha1.RunRunning},
			},
			Clusters: []v1alpha1.ClusterStatus{
				{Name: "alpine", Sync: v1alpha1.Synced, Run: "3f2a000000", State: v1alpha1.RunRunning, Pods: v1alpha1.PodCounts{Desired: 4, Active: 4}},
				{Name: "basalt", Sync: v1alpha1.Synced, Run: "9c1d000000", State: v1alpha1.RunSucceeded},
			},
		},
	}
	for _, edit := range edits {
		edit(f)
	}
	return f
}

func silent(f *v1alpha1.FleetMiniCluster) {
	f.Status.Clusters[0].Sync = v1alpha1.SyncUnknown
	f.Status.Clusters[0].LastHeardTime = &metav1.Time{Time: now.Add(-12 * time.Minute)}
}

func fromGit(f *v1alpha1.FleetMiniCluster) {
	f.Labels[v1alpha1.LabelSource] = "fleet"
	f.Annotations[v1alpha1.AnnotationSourcePath] = "production/lammps.yaml"
}

func suspendedInGit(f *v1alpha1.FleetMiniCluster) {
	fromGit(f)
	f.Spec.Suspend = true
	f.Annotations[v1alpha1.AnnotationSourceSuspend] = "true"
}

func suspendedByHand(f *v1alpha1.FleetMiniCluster) {
	fromGit(f)
	f.Spec.Suspend = true
}

func held(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationHold] = "true" }

func ended(f *v1alpha1.FleetMiniCluster) { f.Status.Runs[1].State = v1alpha1.RunFailed }

func deleting(f *v1alpha1.FleetMiniCluster) {
	f.DeletionTimestamp, f.Finalizers = &metav1.Time{Time: now}, []string{v1alpha1.Finalizer}
}

func rigid(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.MaxSize = 0 }

func annotated(key, value string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Annotations[key] = value }
}

func source(edits ...func(*v1alpha1.GitSource)) *v1alpha1.GitSource {
	s := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"},
		Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.org/fleet.git", Interval: metav1.Duration{Duration: time.Minute}},
		Status:     v1alpha1.GitSourceStatus{Revision: "main@1a2b3c4", Commit: fullHash},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func blocked(condition, message string) func(*v1alpha1.GitSource) {
	return func(s *v1alpha1.GitSource) {
		s.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Message: message}}
	}
}

func member(edits ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "alpine"}}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func ready(m *v1alpha1.MemberCluster) {
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
}

func unreachable(m *v1alpha1.MemberCluster) {
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown}}
	m.Status.LastHeardTime = &metav1.Time{Time: now.Add(-time.Hour)}
}

func drained(m *v1alpha1.MemberCluster) {
	m.Annotations = map[string]string{v1alpha1.AnnotationDrain: "true"}
	m.Spec.Suspend = true
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func hub(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.FleetMiniCluster{}, &v1alpha1.GitSource{}, &v1alpha1.MemberCluster{}).Build()
}

// seen is what an action may change.
type seen struct {
	Annotations map[string]string
	Suspend     bool
	Size        int32
}

func see(t *testing.T, c client.Client, object client.Object) seen {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	out := seen{Annotations: map[string]string{}}
	for key, value := range object.GetAnnotations() {
		if !strings.HasPrefix(key, "minifleet.dev/source-") {
			out.Annotations[key] = value
		}
	}
	switch o := object.(type) {
	case *v1alpha1.FleetMiniCluster:
		out.Suspend, out.Size = o.Spec.Suspend, o.Spec.MiniCluster.Size
	case *v1alpha1.MemberCluster:
		out.Suspend = o.Spec.Suspend
	}
	return out
}

// result of any action.
type result struct {
	changed bool
	note    string
}

func of[T client.Object](out actions.Outcome[T], err error) (result, error) {
	return result{out.Changed, out.Note}, err
}

type action func(ctx context.Context, c client.Client, o actions.Options) (result, error)

func onMiniCluster(f func(context.Context, client.Client, client.ObjectKey, actions.Options) (actions.MiniCluster, error)) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(f(ctx, c, lammps, o))
	}
}

func rerun(token string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.Rerun(ctx, c, lammps, token, o))
	}
}

func rerunOnce(ctx context.Context, c client.Client, o actions.Options) (result, error) {
	return of(actions.RerunOnce(ctx, c, lammps, now, o))
}

func syncOnce(ctx context.Context, c client.Client, o actions.Options) (result, error) {
	return of(actions.SyncOnce(ctx, c, fleet, now, o))
}

// answering has the live run answer a token, since so long.
func answering(token string, since time.Duration) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Annotations[v1alpha1.AnnotationRerunAt] = token
		f.Status.Runs[1].RerunAt, f.Status.Runs[1].StartTime = token, &metav1.Time{Time: now.Add(-since)}
	}
}

func cancel(ids ...string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.Cancel(ctx, c, lammps, ids, o))
	}
}

func runGone(ids ...string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.RunGone(ctx, c, lammps, ids, o))
	}
}

func scale(size int32) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.Scale(ctx, c, lammps, size, o))
	}
}

func syncSource(token string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.SyncSource(ctx, c, fleet, token, o))
	}
}

func approvePrune(revision string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.ApprovePrune(ctx, c, fleet, revision, o))
	}
}

func approveRuns(revision string) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.ApproveRuns(ctx, c, fleet, revision, o))
	}
}

func onMember(f func(context.Context, client.Client, string, actions.Options) (actions.Member, error)) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(f(ctx, c, alpine.Name, o))
	}
}

func memberGone(at time.Time) action {
	return func(ctx context.Context, c client.Client, o actions.Options) (result, error) {
		return of(actions.MemberGone(ctx, c, alpine.Name, at, now, o))
	}
}

func TestActions(t *testing.T) {
	type annotations = map[string]string
	const noonToken = "2026-05-04T12:00:00Z"
	remembered := func(f *v1alpha1.FleetMiniCluster) { f.Status.Succeeded = []v1alpha1.EndedRun{{ID: "a", RerunAt: "7"}} }
	prune := blocked(v1alpha1.ConditionPruneBlocked, "")
	cases := map[string]struct {
		object client.Object
		do     action
		want   seen
		same   bool // nothing is changed
		note   string
		kind   actions.ErrorKind
		err    string
	}{
		"rerun":                      {object: miniCluster(), do: rerun("7"), want: seen{Annotations: annotations{v1alpha1.AnnotationRerunAt: "7"}, Size: 4}},
		"rerun, the same token":      {object: miniCluster(annotated(v1alpha1.AnnotationRerunAt, "7")), do: rerun("7"), same: true},
		"rerun while suspended":      {object: miniCluster(held), do: rerun("7"), note: "once it is resumed", want: seen{Annotations: annotations{v1alpha1.AnnotationRerunAt: "7", v1alpha1.AnnotationHold: "true"}, Size: 4}},
		"rerun, no token":            {object: miniCluster(), do: rerun(""), same: true, kind: actions.Invalid, err: "FleetMiniCluster hpc/lammps: token: \"\" is no token: use 1 to 253"},
		"rerun, a wrong token":       {object: miniCluster(), do: rerun("a b"), same: true, kind: actions.Invalid, err: "token"},
		"rerun, being deleted":       {object: miniCluster(deleting), do: rerun("7"), same: true, kind: actions.Conflict, err: "FleetMiniCluster hpc/lammps is being deleted"},
		"rerun, not there":           {do: rerun("7"), kind: actions.NotFound, err: "FleetMiniCluster hpc/lammps not found: check the name"},
		"rerun, a token of before":   {object: miniCluster(remembered, annotated(v1alpha1.AnnotationRerunAt, "8")), do: rerun("7"), same: true, note: "has been run for this request before"},
		"rerun once":                 {object: miniCluster(), do: rerunOnce, want: seen{Annotations: annotations{v1alpha1.AnnotationRerunAt: noonToken}, Size: 4}},
		"rerun once, asked already":  {object: miniCluster(annotated(v1alpha1.AnnotationRerunAt, "7")), do: rerunOnce, same: true, note: "asked for already"},
		"rerun once, just begun":     {object: miniCluster(answering("7", time.Second)), do: rerunOnce, same: true, note: "asked for already"},
		"rerun once, begun before":   {object: miniCluster(answering("7", 4*time.Second)), do: rerunOnce, want: seen{Annotations: annotations{v1alpha1.AnnotationRerunAt: noonToken}, Size: 4}},
		"rerun once, being deleted":  {object: miniCluster(deleting), do: rerunOnce, same: true, kind: actions.Conflict, err: "is being deleted"},
		"sync once":                  {object: source(), do: syncOnce, want: seen{Annotations: annotations{v1alpha1.AnnotationReconcileAt: noonToken}}},
		"sync once, asked already":   {object: source(func(s *v1alpha1.GitSource) { s.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: "7"} }), do: syncOnce, same: true, note: "asked for already"},
		"cancel one":                 {object: miniCluster(), do: cancel("3f2a000000"), want: seen{Annotations: annotations{v1alpha1.AnnotationCancel: "3f2a000000"}, Size: 4}},
		"cancel by a beginning":      {object: miniCluster(), do: cancel("3f2a"), want: seen{Annotations: annotations{v1alpha1.AnnotationCancel: "3f2a000000"}, Size: 4}},
		"cancel all":                 {object: miniCluster(), do: cancel(), want: seen{Annotations: annotations{v1alpha1.AnnotationCancel: "3f2a000000"}, Size: 4}},
		"cancel after others":        {object: miniCluster(annotated(v1alpha1.AnnotationCancel, "a, b")), do: cancel(), want: seen{Annotations: annotations{v1alpha1.AnnotationCancel: "a, b,3f2a000000"}, Size: 4}},
		"cancel twice":               {object: miniCluster(annotated(v1alpha1.AnnotationCancel, "3f2a000000 b")), do: cancel("3f2a"), same: true},
		"cancel what has ended":      {object: miniCluster(), do: cancel("9c1d"), same: true, kind: actions.Invalid, err: "run: 9c1d000000 on basalt has ended already (Succeeded)"},
		"cancel with none live":      {object: miniCluster(ended), do: cancel(), same: true, kind: actions.Invalid, err: "no run is live"},
		"cancel the unknown":         {object: miniCluster(), do: cancel("77"), same: true, kind: actions.NotFound, err: `there is no run "77" on record`},
		"suspend":                    {object: miniCluster(), do: onMiniCluster(actions.Suspend), want: seen{Annotations: annotations{v1alpha1.AnnotationHold: "true"}, Size: 4}},
		"suspend, held already":      {object: miniCluster(annotated(v1alpha1.AnnotationHold, "yes")), do: onMiniCluster(actions.Suspend), same: true},
		"resume what is held":        {object: miniCluster(held), do: onMiniCluster(actions.Resume), want: seen{Annotations: annotations{}, Size: 4}},
		"resume after an edit":       {object: miniCluster(suspendedByHand, held), do: onMiniCluster(actions.Resume), want: seen{Annotations: annotations{}, Size: 4}},
		"resume, Git says no":        {object: miniCluster(suspendedInGit, held), do: onMiniCluster(actions.Resume), same: true, kind: actions.Conflict, err: "spec.suspend: is true in Git (GitSource fleet, production/lammps.yaml), which would put it back: change it there"},
		"resume, nothing to do":      {object: miniCluster(), do: onMiniCluster(actions.Resume), same: true},
		"scale":                      {object: miniCluster(), do: scale(8), want: seen{Annotations: annotations{}, Size: 8}},
		"scale, from Git":            {object: miniCluster(fromGit), do: scale(2), note: "the size in Git (GitSource fleet, production/lammps.yaml) comes back when", want: seen{Annotations: annotations{}, Size: 2}},
		"scale, too large":           {object: miniCluster(), do: scale(9), same: true, kind: actions.Invalid, err: "spec.miniCluster.size: 9 is above maxSize, 8"},
		"scale, too small":           {object: miniCluster(), do: scale(1), same: true, kind: actions.Invalid, err: "1 is below the least, 2"},
		"scale, not elastic":         {object: miniCluster(rigid), do: scale(5), same: true, kind: actions.Invalid, err: "spec.miniCluster.maxSize: is not set"},
		"run gone":                   {object: miniCluster(silent), do: runGone("3f2a"), want: seen{Annotations: annotations{v1alpha1.AnnotationRunGone: "3f2a000000"}, Size: 4}},
		"run gone, heard from":       {object: miniCluster(), do: runGone("3f2a"), same: true, kind: actions.Invalid, err: "3f2a000000 is on alpine, which is heard from: cancel it instead"},
		"run gone, none named":       {object: miniCluster(silent), do: runGone(), same: true, kind: actions.Invalid, err: "no run is named"},
		"sync":                       {object: source(), do: syncSource("7"), want: seen{Annotations: annotations{v1alpha1.AnnotationReconcileAt: "7"}}},
		"sync, suspended":            {object: source(func(s *v1alpha1.GitSource) { s.Spec.Suspend = true }), do: syncSource("7"), same: true, kind: actions.Conflict, err: "GitSource hpc/fleet: spec.suspend"},
		"prune":                      {object: source(prune), do: approvePrune(fullHash), want: seen{Annotations: annotations{v1alpha1.AnnotationApprovePrune: fullHash}}},
		"prune, another by now":      {object: source(prune), do: approvePrune("main@0000000"), same: true, kind: actions.Conflict, err: `revision: "main@0000000" is not what waits for approval, which is the commit ` + fullHash},
		"prune, by the revision":     {object: source(prune), do: approvePrune("main@1a2b3c4"), same: true, kind: actions.Conflict, err: "approve it by its full hash"},
		"prune, by part of the hash": {object: source(prune), do: approvePrune(fullHash[:39]), same: true, kind: actions.Conflict, err: "approve it by its full hash"},
		"prune, no question":         {object: source(), do: approvePrune(fullHash), same: true, kind: actions.Invalid, err: "nothing waits for approval"},
		"prune, runs wait":           {object: source(prune), do: approveRuns(fullHash), same: true, kind: actions.Invalid, err: "nothing waits for approval"},
		"runs, by the commit":        {object: source(blocked(v1alpha1.ConditionRunsBlocked, "")), do: approveRuns(fullHash), want: seen{Annotations: annotations{v1alpha1.AnnotationApproveRuns: fullHash}}},
		"drain":                      {object: member(), do: onMember(actions.Drain), want: seen{Annotations: annotations{v1alpha1.AnnotationDrain: "true"}}},
		"drain twice":                {object: member(drained), do: onMember(actions.Drain), same: true},
		"cordon":                     {object: member(), do: onMember(actions.Cordon), want: seen{Annotations: annotations{}, Suspend: true}},
		"uncordon":                   {object: member(drained), do: onMember(actions.Uncordon), want: seen{Annotations: annotations{}}},
		"member gone":                {object: member(unreachable), do: memberGone(now), want: seen{Annotations: annotations{v1alpha1.AnnotationMemberGone: "2026-05-04T12:00:00Z"}}},
		"member gone, to come":       {object: member(unreachable), do: memberGone(now.Add(time.Minute)), same: true, kind: actions.Invalid, err: "MemberCluster alpine: time: 2026-05-04T12:01:00Z is yet to come"},
		"member gone, too old":       {object: member(unreachable), do: memberGone(now.Add(-2 * time.Hour)), same: true, kind: actions.Invalid, err: "is before the last answer"},
		"member gone, ready":         {object: member(ready), do: memberGone(now), same: true, kind: actions.Invalid, err: "drain it instead"},
		"member gone, not known":     {object: member(), do: memberGone(now), same: true, kind: actions.Conflict, err: "status.lastHeardTime: is not known yet"},
		"member, not there":          {do: onMember(actions.Drain), kind: actions.NotFound, err: "MemberCluster alpine not found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.object == nil {
				_, err := c.do(t.Context(), hub(t), actions.Options{})
				expect(t, err, c.kind, c.err)
				return
			}
			hub := hub(t, c.object)
			before := see(t, hub, c.object)
			if _, err := c.do(t.Context(), hub, actions.Options{DryRun: true}); (err != nil) != (c.err != "") {
				t.Errorf("dry run: %v", err)
			}
			if diff := cmp.Diff(before, see(t, hub, c.object)); diff != "" {
				t.Errorf("the dry run changed %s", diff)
			}
			done, err := c.do(t.Context(), hub, actions.Options{})
			expect(t, err, c.kind, c.err)
			want := c.want
			if c.same {
				want = before
			}
			if diff := cmp.Diff(want, see(t, hub, c.object)); diff != "" {
				t.Error(diff)
			}
			if err == nil && (done.changed == c.same || !strings.Contains(done.note, c.note)) {
				t.Errorf("outcome %+v", done)
			}
		})
	}
}

func expect(t *testing.T, err error, kind actions.ErrorKind, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), text) || !actions.IsKind(err, kind) {
		t.Fatalf("want %s %q, got %v", kind, text, err)
	}
}

// Somebody else adds an id between reading and writing, twice.
func TestConcurrentEdits(t *testing.T) {
	object, writes := miniCluster(), 0
	c := interceptor.NewClient(hub(t, object), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if writes++; writes <= 2 {
				other := &v1alpha1.FleetMiniCluster{}
				if err := c.Get(ctx, lammps, other); err != nil {
					return err
				}
				list := strings.TrimPrefix(other.Annotations[v1alpha1.AnnotationCancel]+",other", ",")
				other.Annotations = map[string]string{v1alpha1.AnnotationCancel: list}
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	out, err := actions.Cancel(t.Context(), c, lammps, nil, actions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Object.Annotations[v1alpha1.AnnotationCancel]; got != "other,other,3f2a000000" {
		t.Errorf("the list is %q", got)
	}
}

func TestRefusalsOfTheAPIServer(t *testing.T) {
	resource := schema.GroupResource{Group: "minifleet.dev", Resource: "fleetminiclusters"}
	cases := map[string]struct {
		answer error
		kind   actions.ErrorKind
		text   string
	}{
		"conflicts without end": {apierrors.NewConflict(resource, "lammps", nil), actions.Conflict, "is being changed by others all the time"},
		"invalid": {apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("FleetMiniCluster").GroupKind(), "lammps", nil),
			actions.Invalid, "correct it and try again"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := actions.Suspend(t.Context(), refusing(t, c.answer), lammps, actions.Options{})
			expect(t, err, c.kind, c.text)
		})
	}
	t.Run("forbidden", func(t *testing.T) {
		_, err := actions.Suspend(t.Context(), refusing(t, apierrors.NewForbidden(resource, "lammps", nil)), lammps, actions.Options{})
		if !apierrors.IsForbidden(err) || actions.AsError(err) != nil {
			t.Errorf("got %v", err)
		}
	})
}

func refusing(t *testing.T, answer error) client.Client {
	t.Helper()
	return interceptor.NewClient(hub(t, miniCluster()), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return answer
		},
	})
}
