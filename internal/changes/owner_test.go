package changes

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestHasMoved(t *testing.T) {
	const url = "https://git.example.org/hpc/fleet"
	for name, tc := range map[string]struct {
		was  *v1alpha1.SourceOrigin
		url  string
		path string
		more []string
		want bool
	}{
		"nothing is noted":                {url: url},
		"the same":                        {was: &v1alpha1.SourceOrigin{URL: url}, url: url},
		"with .git":                       {was: &v1alpha1.SourceOrigin{URL: url}, url: url + ".git"},
		"with a slash":                    {was: &v1alpha1.SourceOrigin{URL: url + ".git"}, url: url + "/"},
		"another repository":              {was: &v1alpha1.SourceOrigin{URL: url}, url: url + "2", want: true},
		"another host":                    {was: &v1alpha1.SourceOrigin{URL: url}, url: strings.Replace(url, "git.", "git2.", 1), want: true},
		"in other letters":                {was: &v1alpha1.SourceOrigin{URL: url}, url: strings.Replace(url, "fleet", "Fleet", 1), want: true},
		"the root, otherwise":             {was: &v1alpha1.SourceOrigin{URL: url}, url: url, path: "./"},
		"a path":                          {was: &v1alpha1.SourceOrigin{URL: url}, url: url, path: "a", want: true},
		"the path, otherwise":             {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a"}}, url: url, path: "./a/"},
		"the path, as one of a list":      {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a"}}, url: url, more: []string{"a"}},
		"another path":                    {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a"}}, url: url, path: "b", want: true},
		"paths, in another order":         {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a", "b"}}, url: url, more: []string{"b", "a"}},
		"one path more":                   {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a"}}, url: url, more: []string{"a", "b"}, want: true},
		"no path any more":                {was: &v1alpha1.SourceOrigin{URL: url, Paths: []string{"a"}}, url: url, want: true},
		"the root, and a path in it":      {was: &v1alpha1.SourceOrigin{URL: url}, url: url, more: []string{".", "a"}},
		"the same, after part of another": {was: &v1alpha1.SourceOrigin{URL: url, Moving: true}, url: url, want: true},
	} {
		source := newSource()
		source.Spec.URL, source.Spec.Path, source.Spec.Paths, source.Status.Origin = tc.url, tc.path, tc.more, tc.was
		if got := HasMoved(source); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// now and before are times of creation.
var now, before = metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(900, 0))

func TestAppliedByAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		uid, digest string
		made, since metav1.Time
		want        bool
	}{
		"by this one":                       {uid: "u1", digest: "d", made: now, since: before},
		"by another one":                    {uid: "u2", digest: "d", made: now, since: before, want: true},
		"before it was noted":               {digest: "d", made: now, since: before},
		"in the same second":                {digest: "d", made: now, since: now},
		"before this source was there":      {digest: "d", made: before, since: now, want: true},
		"by no source":                      {made: now, since: before, want: true},
		"by this one, restored of a backup": {uid: "u1", digest: "d", made: before, since: now},
	} {
		source, obj := newSource(), onHub("m", "fleet", "m.yaml")
		source.UID, source.CreationTimestamp, obj.CreationTimestamp = "u1", tc.since, tc.made
		obj.Annotations = map[string]string{v1alpha1.AnnotationSourceUID: tc.uid, v1alpha1.AnnotationSourceDigest: tc.digest}
		if got := appliedByAnother(source, obj); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// One object of five that belongs to another owner, or one of a source that has moved, waits, and nothing else does.
func TestOwnersAndOrigins(t *testing.T) {
	foreign := func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationSourceUID] = "another" }
	old := func(f *v1alpha1.FleetMiniCluster) { delete(f.Annotations, v1alpha1.AnnotationSourceUID) }
	kept := func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled }
	keptByLabel := func(f *v1alpha1.FleetMiniCluster) { f.Labels[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled }
	keptByGit := func(f *v1alpha1.FleetMiniCluster) {
		f.Annotations[v1alpha1.AnnotationSourcePrune] = v1alpha1.PruneDisabled
	}
	misprint := func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationPrune] = "disable" }
	for name, tc := range map[string]struct {
		change   func(*v1alpha1.FleetMiniCluster) // of m0, which is on the hub
		command  string                           // of m0 in Git; empty: Git does not declare it
		moved    bool
		approved bool
		want     v1alpha1.ChangeAction
		waits    bool
	}{
		"its own, as it was":                    {command: "one"},
		"its own, changed":                      {command: "two", want: v1alpha1.ChangeRun},
		"its own, removed":                      {want: v1alpha1.ChangeDelete},
		"from before UIDs were noted":           {change: old, command: "one"},
		"from before, removed":                  {change: old, want: v1alpha1.ChangeDelete},
		"of another, as it was":                 {change: foreign, command: "one", want: v1alpha1.ChangeUpdate},
		"of another, changed":                   {change: foreign, command: "two", want: v1alpha1.ChangeRun, waits: true},
		"of another, changed, approved":         {change: foreign, command: "two", approved: true, want: v1alpha1.ChangeRun},
		"of another, removed":                   {change: foreign, want: v1alpha1.ChangeDelete, waits: true},
		"of another, removed, approved":         {change: foreign, approved: true, want: v1alpha1.ChangeDelete},
		"elsewhere, as it was":                  {moved: true, command: "one"},
		"elsewhere, changed":                    {moved: true, command: "two", want: v1alpha1.ChangeRun, waits: true},
		"elsewhere, removed":                    {moved: true, want: v1alpha1.ChangeDelete, waits: true},
		"elsewhere, removed, approved":          {moved: true, approved: true, want: v1alpha1.ChangeDelete},
		"not to be pruned":                      {change: kept, want: v1alpha1.ChangeKeep},
		"not to be pruned, by a label":          {change: keptByLabel, want: v1alpha1.ChangeKeep},
		"not to be pruned, by Git":              {change: keptByGit, want: v1alpha1.ChangeKeep},
		"not to be pruned, approved":            {change: kept, approved: true, want: v1alpha1.ChangeKeep},
		"not to be pruned, as it was":           {change: kept, command: "one"},
		"not to be pruned, as it was, labelled": {change: keptByLabel, command: "one"},
		"not to be pruned by Git until now":     {change: keptByGit, command: "one", want: v1alpha1.ChangeUpdate},
		"with a misprint":                       {change: misprint, want: v1alpha1.ChangeDelete},
	} {
		source := newSource()
		source.UID, source.Spec.URL, source.Status.Origin = "u1", "https://x/y", &v1alpha1.SourceOrigin{URL: "https://x/y.git"}
		if tc.moved {
			source.Spec.URL = "https://x/z"
		}
		if tc.approved {
			source.Annotations = map[string]string{v1alpha1.AnnotationApprovePrune: fullCommit, v1alpha1.AnnotationApproveRuns: fullCommit}
		}
		hub := Hub{}
		var objects []parse.Object
		for _, n := range []string{"m0", "m1", "m2", "m3", "m4"} {
			f := applyRunning(n, "one")
			f.Annotations[v1alpha1.AnnotationSourceUID] = "u1"
			ranFor(f, "one", "", v1alpha1.RunSucceeded)
			hub["FleetMiniCluster/"+n] = f
			if n != "m0" {
				objects = append(objects, running(n, "one"))
			} else if tc.change != nil {
				tc.change(f)
			}
		}
		if tc.command != "" {
			objects = append(objects, running("m0", tc.command))
		}
		plan := Compare(inputOf(source, hub, objects...))
		var want []Change
		if tc.want != "" {
			want = []Change{{Key: "FleetMiniCluster/m0", Action: tc.want, NeedsApproval: tc.waits}}
		}
		if diff := cmp.Diff(want, plan.Changes, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Change{}, "Path", "Line", "Message", "Object", "Have", "Want")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(plan.Changes) == 1 && plan.Changes[0].Want != nil && plan.Changes[0].Want.GetAnnotations()[v1alpha1.AnnotationSourceUID] != "u1" {
			t.Errorf("%s: it would not be this source's own afterwards", name)
		}
		if plan.Through == tc.waits {
			t.Errorf("%s: through: %t", name, plan.Through)
		}
	}
}

// What stays on the hub refers to its Placement.
func TestPlacementsOfWhatStays(t *testing.T) {
	for name, keep := range map[string]func(*v1alpha1.FleetMiniCluster){
		"not to be pruned": func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled },
		"of another":       func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationSourceUID] = "another" },
	} {
		f := applyRunning("m", "one")
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "used"}
		keep(f)
		placement := &v1alpha1.Placement{ObjectMeta: onHub("used", "fleet", "p.yaml").ObjectMeta}
		plan := Compare(inputOf(newSource(), hubOf(f, placement, applyRunning("a", "one"), applyRunning("b", "one")), running("a", "one"), running("b", "one")))
		if got := plan.Keys(v1alpha1.ChangeDelete); len(got) > 0 {
			t.Errorf("%s: %v would be deleted", name, got)
		}
	}
}

// What Git declares about pruning is noted apart from what a person says on the hub, and ends with it.
func TestPruneDeclaredInGit(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, label string
		disabled, refused bool
	}{
		"nothing":       {},
		"an annotation": {annotation: "disabled", disabled: true},
		"a label":       {label: "disabled", disabled: true},
		"enabled":       {annotation: "enabled"},
		"a misprint":    {annotation: "disable", refused: true},
		"one of two":    {annotation: "disabled", label: "no", refused: true},
	} {
		o := running("m", "one")
		for in, value := range map[*map[string]string]string{&o.FleetMiniCluster.Annotations: tc.annotation, &o.FleetMiniCluster.Labels: tc.label} {
			if value != "" {
				*in = map[string]string{v1alpha1.AnnotationPrune: value}
			}
		}
		obj, refusal := Desired(newSource(), &o)
		if (refusal != "") != tc.refused {
			t.Errorf("%s: refusal %q", name, refusal)
		}
		if obj == nil {
			continue
		}
		if _, is := obj.GetLabels()[v1alpha1.AnnotationPrune]; is || (pruneDisabledBy(obj) != "") != tc.disabled {
			t.Errorf("%s: labels %v, annotations %v", name, obj.GetLabels(), obj.GetAnnotations())
		}
	}
}

// A commit that changes an object is named on it, and the one before no longer.
func TestCommitsAreNamedOnWhatTheyChange(t *testing.T) {
	first := v1alpha1.Commit{Hash: "h1", Revision: "main@h1", Author: "Ada", Subject: "Add m"}
	hub := Hub{}
	for _, step := range []struct {
		commit  v1alpha1.Commit
		command string
		want    v1alpha1.Commit
	}{
		{first, "one", first},
		{v1alpha1.Commit{Hash: "h2", Revision: "main@h2", Author: "Bob", Subject: "Change another"}, "one", first},
		{v1alpha1.Commit{Hash: "h3", Revision: "main@h3", Author: "Eve"}, "two", v1alpha1.Commit{Hash: "h3", Revision: "main@h3", Author: "Eve"}},
	} {
		in := inputOf(newSource(), hub, running("m", step.command))
		in.Commit = step.commit
		for _, c := range Compare(in).Changes {
			hub[c.Key] = c.Want
		}
		a := hub["FleetMiniCluster/m"].GetAnnotations()
		got := v1alpha1.Commit{
			Hash: a[v1alpha1.AnnotationSourceCommit], Revision: a[v1alpha1.AnnotationSourceRevision],
			Author: a[v1alpha1.AnnotationSourceAuthor], Subject: a[v1alpha1.AnnotationSourceSubject],
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.commit.Hash, diff)
		}
	}
}
