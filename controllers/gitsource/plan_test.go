package gitsource

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// Applying a tree changes on the hub exactly what the plan says that a dry run and the command line tell.
func TestApplyDoesWhatIsPlanned(t *testing.T) {
	for seed := range int64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testApplyDoesWhatIsPlanned(t, rand.New(rand.NewSource(seed))) })
	}
}

func testApplyDoesWhatIsPlanned(t *testing.T, random *rand.Rand) {
	t.Helper()
	hub := newHub(t, randomHub(random)...)
	r := &Reconciler{Client: hub}
	source := newSource()
	source.UID, source.Spec.URL, source.Status.Origin = "u1", "https://x/y", &v1alpha1.SourceOrigin{URL: "https://x/y", Moving: random.Intn(4) == 0}
	for range 3 {
		tr := treeOf(randomTree(random)...)
		tr.parsed.Problems = randomProblems(random)
		source.Annotations = map[string]string{}
		for _, annotation := range []string{v1alpha1.AnnotationApprovePrune, v1alpha1.AnnotationApproveRuns} {
			if random.Intn(3) == 0 {
				source.Annotations[annotation] = fullCommit
			}
		}
		before, err := readHub(t.Context(), r.Client, source.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		plan := changes.Compare(input(source, tr, before))
		if diff := cmp.Diff(plan, changes.Compare(input(source, tr, whatConcerns(t, r, source, tr)))); diff != "" {
			t.Fatalf("planned with all that the namespace has, and with what is read of it (-want +got):\n%s", diff)
		}
		done, err := apply(t.Context(), hub, hub, source, &plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := prune(t.Context(), hub, &plan, done); err != nil {
			t.Fatal(err)
		}
		after, err := readHub(t.Context(), r.Client, source.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(planned(&plan), happened(before, after), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("planned, and what happened (-want +got):\n%s", diff)
		}
	}
}

// whatConcerns is what a reconciliation reads of the hub.
func whatConcerns(t *testing.T, r *Reconciler, source *v1alpha1.GitSource, tr *tree) changes.Hub {
	t.Helper()
	r.Fleet = bySource{r.Client}
	out, err := r.readOwn(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.addNamed(t.Context(), out, source.Namespace, tr.parsed.Objects); err != nil {
		t.Fatal(err)
	}
	return out
}

// bySource is a Fleet of what a client reads.
type bySource struct{ client.Client }

func (b bySource) List(ctx context.Context, namespace, source string) ([]*v1alpha1.FleetMiniCluster, error) {
	var list v1alpha1.FleetMiniClusterList
	err := b.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSource: source})
	var out []*v1alpha1.FleetMiniCluster
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, err
}

func (b bySource) Get(ctx context.Context, key types.NamespacedName) (*v1alpha1.FleetMiniCluster, bool, error) {
	f := &v1alpha1.FleetMiniCluster{}
	err := b.Client.Get(ctx, key, f)
	return f, err == nil, client.IgnoreNotFound(err)
}

// planned is what a plan writes, as +KEY, ~KEY and -KEY.
func planned(plan *changes.Plan) []string {
	var out []string
	for sign, actions := range map[string][]v1alpha1.ChangeAction{
		"+": {v1alpha1.ChangeCreate}, "~": {v1alpha1.ChangeUpdate, v1alpha1.ChangeRun}, "-": {v1alpha1.ChangeDelete},
	} {
		for _, key := range plan.Keys(actions...) {
			out = append(out, sign+key)
		}
	}
	slices.Sort(out)
	return out
}

// happened is how two states of a hub differ.
func happened(before, after changes.Hub) []string {
	var out []string
	for key, obj := range after {
		switch was := before[key]; {
		case was == nil:
			out = append(out, "+"+key)
		case was.GetDeletionTimestamp().IsZero() && !obj.GetDeletionTimestamp().IsZero():
			out = append(out, "-"+key)
		case was.GetResourceVersion() != obj.GetResourceVersion():
			out = append(out, "~"+key)
		}
	}
	for key := range before {
		if after[key] == nil {
			out = append(out, "-"+key)
		}
	}
	slices.Sort(out)
	return out
}

const randomNames = 6

func randomHub(random *rand.Rand) []client.Object {
	var out []client.Object
	for i := range randomNames {
		if random.Intn(3) == 0 {
			continue
		}
		f := applyRunning(fmt.Sprint("m", i), fmt.Sprint(random.Intn(2)))
		f.ResourceVersion = ""
		for range random.Intn(3) {
			ranFor(f, fmt.Sprint(random.Intn(2)), "", []v1alpha1.RunState{v1alpha1.RunSucceeded, v1alpha1.RunFailed, v1alpha1.RunRunning}[random.Intn(3)])
		}
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: fmt.Sprint("p", random.Intn(3))}
		if random.Intn(5) == 0 {
			f.Labels[v1alpha1.LabelSource] = "other"
		}
		if random.Intn(5) == 0 {
			f.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled
		}
		if owner := random.Intn(3); owner > 0 {
			f.Annotations[v1alpha1.AnnotationSourceUID] = fmt.Sprint("u", owner)
		}
		out = append(out, f)
	}
	for i := range 3 {
		if random.Intn(2) == 0 {
			p := &v1alpha1.Placement{ObjectMeta: onHub(fmt.Sprint("p", i), "fleet", "p.yaml").ObjectMeta}
			p.ResourceVersion = ""
			out = append(out, p)
		}
	}
	return out
}

func randomTree(random *rand.Rand) []parse.Object {
	var out []parse.Object
	for i := range randomNames {
		if random.Intn(3) > 0 {
			out = append(out, running(fmt.Sprint("m", i), fmt.Sprint(random.Intn(2))))
		}
	}
	for i := range 3 {
		if random.Intn(2) == 0 {
			out = append(out, parse.Object{Kind: parse.KindPlacement, Name: fmt.Sprint("p", i), Path: "p.yaml", Placement: &v1alpha1.Placement{}})
		}
	}
	return out
}

func randomProblems(random *rand.Rand) []parse.Problem {
	switch random.Intn(6) {
	case 0:
		return []parse.Problem{{Path: fmt.Sprintf("m%d.yaml", random.Intn(randomNames))}}
	case 1:
		return []parse.Problem{{Path: "new.yaml"}}
	}
	return nil
}
