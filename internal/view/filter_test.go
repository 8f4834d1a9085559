package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

func fleetOfFive() []*view.Entry {
	revision := func(r string) edit { return func(f *v1alpha1.FleetMiniCluster) { f.Status.Revision = r } }
	out := entries(
		miniCluster(named("physics", "lammps"), state(v1alpha1.StateRunning), on("alpine", "a", v1alpha1.RunRunning), labelled("app", "md"), labelled(v1alpha1.LabelSource, "fleet"), revision("main@1a2b3c4")),
		miniCluster(named("physics", "amg"), state(v1alpha1.StateFailed), on("birch", "b", v1alpha1.RunFailed), labelled("app", "solver"), labelled(v1alpha1.LabelSource, "fleet"), revision("main@5d6e7f8")),
		miniCluster(named("chemistry", "nwchem"), state(v1alpha1.StateSucceeded), on("alpine", "c", v1alpha1.RunSucceeded), labelled(v1alpha1.LabelSource, "fleet")),
		miniCluster(named("chemistry", "lammps"), state(v1alpha1.StateWaiting), waitsFor("alpine", "no room")),
		miniCluster(named("bio", "gromacs"), state(v1alpha1.StateRunning), on("birch", "d", v1alpha1.RunRunning), on("alpine", "e", v1alpha1.RunRunning)),
	)
	out[0].Object.Status.Health = v1alpha1.Degraded
	out[0].Row.Health, out[0].Row.Sync = "Degraded", "OutOfSync"
	return out
}

func namesOf(list []*view.Entry) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.Row.Namespace+"/"+e.Row.Name)
	}
	return out
}

func TestFilter(t *testing.T) {
	type lists struct{ states, namespaces, sources, members []string }
	cases := map[string]struct {
		query string
		lists lists
		want  []string
	}{
		"all":                  {"", lists{}, []string{"bio/gromacs", "chemistry/lammps", "chemistry/nwchem", "physics/amg", "physics/lammps"}},
		"a piece of a name":    {"amm", lists{}, []string{"chemistry/lammps", "physics/lammps"}},
		"whatever the case":    {"LAMMPS", lists{}, []string{"chemistry/lammps", "physics/lammps"}},
		"a piece of both":      {"try/lam", lists{}, []string{"chemistry/lammps"}},
		"the name of a label":  {"app", lists{}, []string{"physics/amg", "physics/lammps"}},
		"a label's value":      {"app=md", lists{}, []string{"physics/lammps"}},
		"all terms hold":       {"lammps ns:physics state:running", lists{}, []string{"physics/lammps"}},
		"a state":              {"state:failed", lists{}, []string{"physics/amg"}},
		"a health":             {"health:degraded", lists{}, []string{"physics/lammps"}},
		"a sync":               {"sync:outofsync", lists{}, []string{"physics/lammps"}},
		"a member":             {"member:birch", lists{}, []string{"bio/gromacs", "physics/amg"}},
		"a source":             {"source:fleet", lists{}, []string{"chemistry/nwchem", "physics/amg", "physics/lammps"}},
		"one source":           {"source:physics/fleet", lists{}, []string{"physics/amg", "physics/lammps"}},
		"a commit":             {"commit:1a2b", lists{}, []string{"physics/lammps"}},
		"a full hash":          {"commit:1a2b3c4d5e6f", lists{}, []string{"physics/lammps"}},
		"a revision":           {"commit:main@5d6e7f8", lists{}, []string{"physics/amg"}},
		"states":               {"", lists{states: []string{"failed", "Waiting"}}, []string{"chemistry/lammps", "physics/amg"}},
		"namespaces":           {"", lists{namespaces: []string{"bio"}}, []string{"bio/gromacs"}},
		"sources":              {"", lists{sources: []string{"chemistry/fleet", "bio/other"}}, []string{"chemistry/nwchem"}},
		"members":              {"", lists{members: []string{"birch"}}, []string{"bio/gromacs", "physics/amg"}},
		"members and states":   {"", lists{members: []string{"birch"}, states: []string{"running"}}, []string{"bio/gromacs"}},
		"nothing has all that": {"state:failed state:running", lists{}, []string{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := view.NewFilter(c.query, c.lists.states, c.lists.namespaces, c.lists.sources, c.lists.members)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := view.Select(fleetOfFive(), f)
			view.Sort(got, "namespace", false)
			if diff := cmp.Diff(c.want, namesOf(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilterErrors(t *testing.T) {
	for query, want := range map[string]string{
		"lammps colour:red": `"colour:red": there is no colour:; use state:`,
		"state:lost":        `"state:lost": use one of failed, invalid`,
		"health:":           `"health:": a value is missing`,
		"=x":                `"=x": name the label`,
		"commit:1a":         `"commit:1a": use at least 4 digits`,
	} {
		if _, err := view.NewFilter(query, nil, nil, nil, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v", query, err)
		}
	}
	if _, err := view.NewFilter("", []string{"lost"}, nil, nil, nil); err == nil || !strings.HasPrefix(err.Error(), `"state=lost": use one of`) {
		t.Errorf("got %v", err)
	}
}

// Each facet is counted without its own filter, so that another value can be chosen.
func TestFacets(t *testing.T) {
	f, err := view.NewFilter("", []string{"running"}, nil, nil, []string{"alpine"})
	if err != nil {
		t.Fatal(err)
	}
	_, got := view.Select(fleetOfFive(), f)
	want := view.Facets{
		States:     []view.Count{{Value: "Running", Count: 2}, {Value: "Succeeded", Count: 1}},
		Namespaces: []view.Count{{Value: "bio", Count: 1}, {Value: "physics", Count: 1}},
		Sources:    []view.Count{{Value: "physics/fleet", Count: 1}},
		Members:    []view.Count{{Value: "alpine", Count: 2}, {Value: "birch", Count: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSort(t *testing.T) {
	created := func(f *view.Entry, before time.Duration) {
		f.Row.Created, f.Row.Since = noon.Add(-before), noon.Add(-before)
	}
	list := fleetOfFive()
	for i, e := range list {
		created(e, time.Duration(i)*time.Minute)
	}
	for by, want := range map[string]string{
		"attention": "physics/amg chemistry/lammps physics/lammps bio/gromacs chemistry/nwchem",
		"name":      "physics/amg bio/gromacs chemistry/lammps physics/lammps chemistry/nwchem",
		"namespace": "bio/gromacs chemistry/lammps chemistry/nwchem physics/amg physics/lammps",
		"state":     "physics/amg chemistry/lammps bio/gromacs physics/lammps chemistry/nwchem",
		"created":   "bio/gromacs chemistry/lammps chemistry/nwchem physics/amg physics/lammps",
		"commit":    "physics/lammps physics/amg bio/gromacs chemistry/lammps chemistry/nwchem",
		"member":    "chemistry/lammps chemistry/nwchem physics/lammps physics/amg bio/gromacs",
		"pods":      "chemistry/lammps chemistry/nwchem physics/amg physics/lammps bio/gromacs",
	} {
		view.Sort(list, by, false)
		if got := strings.Join(namesOf(list), " "); got != want {
			t.Errorf("by %s: got %s, want %s", by, got, want)
		}
	}
	view.Sort(list, "name", true)
	if got := namesOf(list)[0]; got != "chemistry/nwchem" {
		t.Errorf("descending begins with %s", got)
	}
}

func TestPage(t *testing.T) {
	list := []int{1, 2, 3}
	for _, c := range []struct {
		offset, limit int
		want          []int
	}{{0, 2, []int{1, 2}}, {2, 2, []int{3}}, {5, 2, []int{}}, {-1, 0, []int{}}} {
		if diff := cmp.Diff(c.want, view.Page(list, c.offset, c.limit)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
}
