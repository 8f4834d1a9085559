package parse_test

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func blobOf(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// randomContent is a file with documents, right and wrong, whose names meet those of others.
func randomContent(r *rand.Rand) string {
	var docs []string
	for range r.IntN(4) {
		name := fmt.Sprintf("n%d", r.IntN(12))
		switch r.IntN(12) {
		case 0:
			docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name))
		case 1:
			docs = append(docs, fmt.Sprintf("apiVersion: minifleet.dev/v1alpha1\nkind: Placemnt\nmetadata: {name: %s}\n", name))
		case 2:
			docs = append(docs, strings.Replace(named(mini, name), "kind", "size: x\nunknown: 1\nkind", 1))
		case 3:
			docs = append(docs, named(fleet, name))
		case 4:
			docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: minifleet.dev/v1alpha1, kind: Placement, metadata: {name: %s}, spec: {clusterSelector: {}}}\n", name))
		case 5:
			docs = append(docs, named(mini, name)+fmt.Sprintf("# %d\n", r.IntN(100)))
		case 6:
			docs = append(docs, named(placement, name)+strings.Repeat("---\n"+named(placement, name), 32))
		case 7:
			docs = append(docs, "a: [")
		case 8:
			docs = append(docs, named(placement, name)+strings.Repeat("bad: 1\n", 40))
		default:
			docs = append(docs, named(placement, name))
		}
	}
	return strings.Join(docs, "---\n")
}

// ownersOf are the files of objects, as the hub would know them.
func ownersOf(r parse.Result) map[string]string {
	out := map[string]string{}
	for _, o := range r.Objects {
		kind := o.Kind
		if kind == parse.KindMiniCluster {
			kind = parse.KindFleetMiniCluster
		}
		out[kind+"/"+o.Name] = o.Path
	}
	return out
}

// Whatever was parsed before, the result is that of parsing everything.
func TestParsedBeforeIsParsedAnew(t *testing.T) {
	reused, contested := 0, 0
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 36))
		contents := map[string]string{}
		var before *parse.Parsed
		owners := map[string]string{}
		for commit := range 12 {
			for range 1 + r.IntN(4) {
				path := fmt.Sprintf("%02d.yaml", r.IntN(20))
				if r.IntN(4) == 0 {
					delete(contents, path)
				} else {
					contents[path] = randomContent(r)
				}
			}
			limits := budget.Limits{}
			switch r.IntN(8) {
			case 0:
				limits.MaxObjects = 1 + r.IntN(20)
			case 1:
				limits.MaxValues = int64(1 + r.IntN(800))
			case 2:
				limits.MaxMemoryBytes = int64(1 + r.IntN(300_000))
			case 3:
				limits.MaxTextBytes = int64(1 + r.IntN(4000))
			}
			opts := parse.Options{Namespace: "hpc", Owners: owners, Lines: seed%3 == 0, AllProblems: seed%5 == 0}
			var all, changed []gitsource.File
			for _, path := range slices.Sorted(maps.Keys(contents)) {
				f := gitsource.File{Path: path, Data: []byte(contents[path]), Blob: blobOf(contents[path])}
				if r.IntN(15) == 0 {
					f.Data, f.Problem = nil, "is a link"
				}
				all = append(all, f)
				if before.Has(f.Path, f.Blob) && f.Problem == "" {
					f.Data = nil
					reused++
				}
				changed = append(changed, f)
			}
			want, wantErr := parse.Within(budget.New(t.Context(), limits, nil), all, opts)
			opts.Before = before
			got, err := parse.Within(budget.New(t.Context(), limits, nil), changed, opts)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d, commit %d: error %v, want %v", seed, commit, err, wantErr)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(parse.Result{}, "Parsed")); diff != "" {
				t.Fatalf("seed %d, commit %d (-anew +reused):\n%s", seed, commit, diff)
			}
			if err != nil {
				continue
			}
			for _, p := range got.Problems {
				if strings.Contains(p.Message, "keeps it") {
					contested++
				}
			}
			before = got.Parsed
			if r.IntN(3) > 0 {
				owners = ownersOf(got)
			}
		}
	}
	if reused < 500 || contested < 500 {
		t.Errorf("%d files were used again, %d names were contested: this tests nothing", reused, contested)
	}
}

func TestParsedWithOtherOptionsIsParsedAnew(t *testing.T) {
	text := named(placement, "a")
	files := []gitsource.File{{Path: "a.yaml", Data: []byte(text), Blob: blobOf(text)}}
	first := parse.Tree(files, parse.Options{Namespace: "hpc"})
	if !first.Parsed.Has("a.yaml", blobOf(text)) || first.Parsed.Has("b.yaml", blobOf(text)) || first.Parsed.Has("a.yaml", "") {
		t.Error("what was parsed is not known")
	}
	second := parse.Tree(files, parse.Options{Namespace: "hpc", Before: first.Parsed})
	if first.Objects[0].Placement != second.Objects[0].Placement {
		t.Error("an unchanged file was parsed again")
	}
	if got := parse.Tree(files, parse.Options{Namespace: "hpc", Lines: true, Before: first.Parsed}); got.Objects[0].Lines == nil {
		t.Error("there are no lines")
	}
	// What is not read must not be taken for an empty file, whose objects would be missing.
	unread := []gitsource.File{{Path: "b.yaml", Blob: blobOf(text)}}
	if got := parse.Tree(unread, parse.Options{Namespace: "hpc", Before: first.Parsed}); len(got.Problems) != 1 {
		t.Errorf("problems %+v", got.Problems)
	}
}
