package changes

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func miniCluster(labels, annotations map[string]string) parse.Object {
	return parse.Object{Kind: parse.KindMiniCluster, Name: "m", Path: "dir/m.yaml", Index: 2,
		MiniCluster: &fluxv1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}}
}

func TestDesiredPlacement(t *testing.T) {
	byLabel := map[string]string{v1alpha1.LabelPlacement: "gpu"}
	for name, tc := range map[string]struct {
		labels           map[string]string
		defaultPlacement string
		want             string // empty: refused
	}{
		"label":                        {byLabel, "", "gpu"},
		"default":                      {nil, "cpu", "cpu"},
		"the label before the default": {byLabel, "cpu", "gpu"},
		"neither":                      {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			if tc.defaultPlacement != "" {
				source.Spec.DefaultPlacement = &v1alpha1.LocalReference{Name: tc.defaultPlacement}
			}
			o := miniCluster(tc.labels, nil)
			obj, refusal := Desired(source, &o)
			if (refusal == "") != (tc.want != "") {
				t.Fatalf("refusal: %q", refusal)
			}
			if tc.want != "" && obj.(*v1alpha1.FleetMiniCluster).Spec.PlacementRef.Name != tc.want {
				t.Errorf("placement %q, want %q", obj.(*v1alpha1.FleetMiniCluster).Spec.PlacementRef.Name, tc.want)
			}
		})
	}
}

// What MiniFleet keeps in labels and annotations is not for a file in Git to say.
func TestDesiredMetadata(t *testing.T) {
	o := miniCluster(
		map[string]string{"team": "a", v1alpha1.LabelPlacement: "gpu", v1alpha1.LabelSource: "forged", "minifleet.dev/unheard-of": "x"},
		map[string]string{"note": "b", v1alpha1.AnnotationRerunAt: "now", v1alpha1.AnnotationSourceDigest: "forged", v1alpha1.AnnotationRunGone: "forged"})
	obj, refusal := Desired(newSource(), &o)
	if refusal != "" {
		t.Fatal(refusal)
	}
	wantLabels := map[string]string{"team": "a", v1alpha1.LabelPlacement: "gpu", v1alpha1.LabelSource: "fleet"}
	if diff := cmp.Diff(wantLabels, obj.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{"note": "b", v1alpha1.AnnotationRerunAt: "now", v1alpha1.AnnotationSourcePath: "dir/m.yaml#2"}
	got := obj.GetAnnotations()
	if len(got[v1alpha1.AnnotationSourceDigest]) != 16 {
		t.Errorf("digest %q", got[v1alpha1.AnnotationSourceDigest])
	}
	delete(got, v1alpha1.AnnotationSourceDigest)
	if diff := cmp.Diff(wantAnnotations, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if obj.GetNamespace() != "hpc" || obj.GetName() != "m" {
		t.Errorf("it is %s/%s, want hpc/m", obj.GetNamespace(), obj.GetName())
	}
}

// What Git declares of spec.suspend is remembered, so that what a person sets can be told from it.
func TestDesiredSuspend(t *testing.T) {
	for name, tc := range map[string]struct{ declared, suspend, hasIt bool }{
		"declared":     {declared: true, suspend: true},
		"not to be":    {declared: true},
		"not declared": {},
	} {
		o := parse.Object{Kind: parse.KindFleetMiniCluster, Name: "m", DeclaresSuspend: tc.declared, FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
		o.FleetMiniCluster.Spec.Suspend = tc.suspend
		o.FleetMiniCluster.Annotations = map[string]string{v1alpha1.AnnotationSourceSuspend: "forged", v1alpha1.AnnotationHold: "true"}
		obj, _ := Desired(newSource(), &o)
		value, is := obj.GetAnnotations()[v1alpha1.AnnotationSourceSuspend]
		if is != tc.declared || is && value != strconv.FormatBool(tc.suspend) {
			t.Errorf("%s: %q", name, value)
		}
		if obj.(*v1alpha1.FleetMiniCluster).Held() {
			t.Errorf("%s: a file in Git holds it", name)
		}
	}
}

func TestSourceDigestIsOfWhatGitDeclares(t *testing.T) {
	digest := func(change func(*parse.Object)) string {
		o := miniCluster(map[string]string{v1alpha1.LabelPlacement: "gpu"}, nil)
		change(&o)
		obj, refusal := Desired(newSource(), &o)
		if refusal != "" {
			t.Fatal(refusal)
		}
		return obj.GetAnnotations()[v1alpha1.AnnotationSourceDigest]
	}
	before := digest(func(*parse.Object) {})
	for name, tc := range map[string]struct {
		change func(*parse.Object)
		same   bool
	}{
		"another file":  {func(o *parse.Object) { o.Path, o.Index = "other.yaml", 7 }, true},
		"another size":  {func(o *parse.Object) { o.MiniCluster.Spec.Size = 7 }, false},
		"another label": {func(o *parse.Object) { o.MiniCluster.Labels["team"] = "a" }, false},
		"asked to run again": {func(o *parse.Object) {
			o.MiniCluster.Annotations = map[string]string{v1alpha1.AnnotationRerunAt: "now"}
		}, false},
	} {
		if got := digest(tc.change); (got == before) != tc.same {
			t.Errorf("%s: digest %s, before %s", name, got, before)
		}
	}
}

func TestMerge(t *testing.T) {
	want := func() *v1alpha1.FleetMiniCluster {
		f := onHub("m", "fleet", "m.yaml")
		f.Annotations[v1alpha1.AnnotationSourceDigest] = "d1"
		f.Spec.MiniCluster.Size, f.Spec.MiniCluster.MinSize, f.Spec.MiniCluster.MaxSize = 4, 2, 8
		return f
	}
	have := func(change func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
		f := want()
		f.Annotations[v1alpha1.AnnotationSourceRevision] = "r1"
		change(f)
		return f
	}
	annotate := func(key, value string) func(*v1alpha1.FleetMiniCluster) {
		return func(f *v1alpha1.FleetMiniCluster) { f.Annotations[key] = value }
	}
	resize := func(size int32) func(*v1alpha1.FleetMiniCluster) {
		return func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = size }
	}
	both := func(changes ...func(*v1alpha1.FleetMiniCluster)) func(*v1alpha1.FleetMiniCluster) {
		return func(f *v1alpha1.FleetMiniCluster) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	suspend := func(suspended bool) func(*v1alpha1.FleetMiniCluster) {
		return func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = suspended }
	}
	declare := func(suspended bool) func(*v1alpha1.FleetMiniCluster) {
		return both(suspend(suspended), annotate(v1alpha1.AnnotationSourceSuspend, strconv.FormatBool(suspended)))
	}
	image := func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.MiniCluster.Containers, f.Annotations[v1alpha1.AnnotationSourceDigest] = make([]fluxv1alpha2.MiniClusterContainer, 1), "d2"
	}
	type result struct {
		changed         bool
		size            int32
		revision, rerun string
		suspended       bool
	}
	for name, tc := range map[string]struct {
		have    func(*v1alpha1.FleetMiniCluster)
		inGit   func(*v1alpha1.FleetMiniCluster)
		want    result
		present string // an annotation that is to be there
	}{
		"as it should be":            {have: func(*v1alpha1.FleetMiniCluster) {}, want: result{size: 4, revision: "r1"}},
		"scaled within its bounds":   {have: resize(8), want: result{size: 8, revision: "r1"}},
		"scaled to its least":        {have: resize(2), want: result{size: 2, revision: "r1"}},
		"scaled beyond its bounds":   {have: resize(9), want: result{changed: true, size: 4, revision: "r1"}},
		"scaled below its bounds":    {have: resize(1), want: result{changed: true, size: 4, revision: "r1"}},
		"scaled, and Git changes it": {have: resize(8), inGit: annotate(v1alpha1.AnnotationSourceDigest, "d2"), want: result{changed: true, size: 4, revision: "r2"}},
		"edited": {have: func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Pod.HostPID = true },
			want: result{changed: true, size: 4, revision: "r1"}},
		"relabelled": {have: func(f *v1alpha1.FleetMiniCluster) { f.Labels["team"] = "a" },
			want: result{changed: true, size: 4, revision: "r1"}},
		"put back by Velero": {have: func(f *v1alpha1.FleetMiniCluster) { f.Labels[v1alpha1.LabelVeleroRestore] = "nightly" },
			want: result{size: 4, revision: "r1"}},
		"annotated by somebody":       {have: annotate("note", "a"), want: result{size: 4, revision: "r1"}, present: "note"},
		"asked to run again":          {have: annotate(v1alpha1.AnnotationRerunAt, "person"), want: result{size: 4, revision: "r1", rerun: "person"}},
		"asked by a person after Git": {have: annotate(v1alpha1.AnnotationRerunAt, "person"), inGit: annotate(v1alpha1.AnnotationRerunAt, "git"), want: result{size: 4, revision: "r1", rerun: "person"}},
		"asked by Git after a person": {
			have: annotate(v1alpha1.AnnotationRerunAt, "person"),
			inGit: func(f *v1alpha1.FleetMiniCluster) {
				f.Annotations[v1alpha1.AnnotationRerunAt], f.Annotations[v1alpha1.AnnotationSourceDigest] = "git", "d2"
			},
			want: result{changed: true, size: 4, revision: "r2", rerun: "git"},
		},
		"suspended by hand":                        {have: suspend(true), want: result{size: 4, revision: "r1", suspended: true}},
		"suspended by hand, and Git changes it":    {have: suspend(true), inGit: image, want: result{changed: true, size: 4, revision: "r2", suspended: true}},
		"held by an annotation":                    {have: annotate(v1alpha1.AnnotationHold, "true"), want: result{size: 4, revision: "r1", suspended: true}, present: v1alpha1.AnnotationHold},
		"held, and Git changes it":                 {have: annotate(v1alpha1.AnnotationHold, "true"), inGit: image, want: result{changed: true, size: 4, revision: "r2", suspended: true}, present: v1alpha1.AnnotationHold},
		"suspended by Git":                         {have: declare(true), inGit: declare(true), want: result{size: 4, revision: "r1", suspended: true}},
		"suspended by Git, resumed by hand":        {have: both(declare(true), suspend(false)), inGit: declare(true), want: result{changed: true, size: 4, revision: "r1", suspended: true}},
		"not to be suspended, says Git":            {have: both(declare(false), suspend(true)), inGit: declare(false), want: result{changed: true, size: 4, revision: "r1"}},
		"suspended by hand, then by Git":           {have: suspend(true), inGit: declare(true), want: result{changed: true, size: 4, revision: "r1", suspended: true}},
		"suspended by Git, which says nothing now": {have: declare(true), want: result{changed: true, size: 4, revision: "r1"}},
		"suspended by hand when Git says nothing of it any more": {
			have: both(declare(false), suspend(true)), want: result{changed: true, size: 4, revision: "r1", suspended: true}},
		"moved to another file": {have: annotate(v1alpha1.AnnotationSourcePath, "old.yaml#0"), want: result{changed: true, size: 4, revision: "r1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inGit, onTheHub := want(), have(tc.have)
			if tc.inGit != nil {
				tc.inGit(inGit)
			}
			before := onTheHub.DeepCopy()
			merged, changed := Merge(inGit, onTheHub, v1alpha1.Commit{Revision: "r2"})
			f := merged.(*v1alpha1.FleetMiniCluster)
			got := result{changed, f.Spec.MiniCluster.Size, f.Annotations[v1alpha1.AnnotationSourceRevision], f.Annotations[v1alpha1.AnnotationRerunAt], f.Suspended()}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if _, is := f.Annotations[tc.present]; tc.present != "" && !is {
				t.Errorf("annotation %s is no longer there", tc.present)
			}
			if diff := cmp.Diff(before, onTheHub); diff != "" {
				t.Errorf("the cache's object has changed:\n%s", diff)
			}
		})
	}
}

func TestScalable(t *testing.T) {
	for name, tc := range map[string]struct {
		minSize, maxSize, size int32
		want                   bool
	}{
		"not elastic":   {0, 0, 3, false},
		"within":        {2, 8, 3, true},
		"no lower one":  {0, 8, 1, true},
		"nothing":       {0, 8, 0, false},
		"below":         {2, 8, 1, false},
		"the upper one": {2, 8, 8, true},
		"above":         {2, 8, 9, false},
	} {
		f := &v1alpha1.FleetMiniCluster{}
		f.Spec.MiniCluster.MinSize, f.Spec.MiniCluster.MaxSize = tc.minSize, tc.maxSize
		if got := scalable(f, tc.size); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Objects are of the shard of their source, and a repository cannot choose another.
func TestDesiredShard(t *testing.T) {
	for name, tc := range map[string]struct {
		source, inGit map[string]string
		want          string
		refused       bool
	}{
		"of no shard":                     {nil, nil, "", false},
		"of that of the source":           {map[string]string{v1alpha1.LabelShard: "east"}, nil, "east", false},
		"declared as that of the source":  {map[string]string{v1alpha1.LabelShard: "east"}, map[string]string{v1alpha1.LabelShard: "east"}, "east", false},
		"declared as another":             {map[string]string{v1alpha1.LabelShard: "east"}, map[string]string{v1alpha1.LabelShard: "west"}, "", true},
		"declared although there is none": {nil, map[string]string{v1alpha1.LabelShard: "west"}, "", true},
		"declared as none":                {map[string]string{v1alpha1.LabelShard: "east"}, map[string]string{v1alpha1.LabelShard: ""}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.Labels = tc.source
			source.Spec.DefaultPlacement = &v1alpha1.LocalReference{Name: "cpu"}
			o := miniCluster(tc.inGit, nil)
			obj, refusal := Desired(source, &o)
			if (refusal != "") != tc.refused {
				t.Fatalf("refusal %q", refusal)
			}
			if tc.refused {
				return
			}
			if got := obj.GetLabels()[v1alpha1.LabelShard]; got != tc.want {
				t.Errorf("shard %q, want %q", got, tc.want)
			}
			plain := miniCluster(nil, nil)
			source.Labels = nil
			of, _ := Desired(source, &plain)
			if of.GetAnnotations()[v1alpha1.AnnotationSourceDigest] != obj.GetAnnotations()[v1alpha1.AnnotationSourceDigest] {
				t.Error("the shard is taken for a change in Git")
			}
		})
	}
}
