package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func startedBy(t *testing.T, w *httptest.ResponseRecorder) Started {
	t.Helper()
	var out Started
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code >= 300 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return out
}

func TestStart(t *testing.T) {
	s := newSite(t, true)
	const key = "Idempotency-Key: press 1"
	dry := s.post("/miniclusters?dryRun=true", "writer", startBody, key)
	want := Started{
		Namespace: "physics", Name: "new", URL: "/api/v1/miniclusters/physics/new", Page: "/miniclusters/physics/new", Created: true, DryRun: true,
		Message: "Creates FleetMiniCluster physics/new and runs it once with 2 pods on one member that its placement selects.",
	}
	if diff := cmp.Diff(want, startedBy(t, dry)); diff != "" || dry.Code != http.StatusOK || dry.Header().Get("Location") != "" || len(s.hub.objects) > 0 {
		t.Errorf("dry run: %d %s", dry.Code, diff)
	}
	w := s.post("/miniclusters", "writer", startBody, key)
	want.UID, want.DryRun = startedBy(t, w).UID, false
	if diff := cmp.Diff(want, startedBy(t, w)); diff != "" || w.Code != http.StatusCreated || w.Header().Get("Location") != want.URL || want.UID == "" {
		t.Errorf("%d %s", w.Code, diff)
	}
	// What was created can be read as soon as it is answered.
	if w := s.send(http.MethodGet, strings.TrimPrefix(want.URL, "/api/v1"), "writer", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = s.post("/miniclusters", "writer", startBody, key)
	want.Created, want.Message = false, "It was started before with the same idempotency key."
	if diff := cmp.Diff(want, startedBy(t, w)); diff != "" || w.Code != http.StatusOK {
		t.Errorf("again: %d %s", w.Code, diff)
	}
	w = s.post("/miniclusters", "writer", strings.Replace(startBody, `"size":2`, `"size":3`, 1), key)
	if detail, _ := problemOf(t, w); w.Code != http.StatusConflict || !strings.Contains(detail, "has started something else before") {
		t.Errorf("the key with another body: %d %s", w.Code, w.Body)
	}
	if w = s.post("/miniclusters", "writer", startBody); w.Code != http.StatusConflict {
		t.Errorf("the name without the key: %d %s", w.Code, w.Body)
	}
	if len(s.hub.objects) != 1 {
		t.Errorf("got %d objects", len(s.hub.objects))
	}
}

func TestStartWithGeneratedName(t *testing.T) {
	s := newSite(t, true)
	body := strings.Replace(startBody, `"name":"new"`, `"generateName":"run-"`, 1)
	var names []string
	for _, key := range []string{"a", "a", "b"} {
		names = append(names, startedBy(t, s.post("/miniclusters", "writer", body, "Idempotency-Key: "+key)).Name)
	}
	if names[0] != names[1] || names[1] == names[2] || !strings.HasPrefix(names[0], "run-") {
		t.Errorf("got %s", names)
	}
	if without := startedBy(t, s.post("/miniclusters", "writer", body)); !without.Created || slices.Contains(names, without.Name) {
		t.Errorf("without a key: %+v", without)
	}
}

func TestStartedObject(t *testing.T) {
	s := newSite(t, true)
	body := `{"namespace":"physics","name":"new","labels":{"a":"b"},"priority":5,"retries":2,"ttlSecondsAfterFinished":60,
		"miniCluster":{"size":2,"maxSize":4,"containers":[{"image":"lammps","command":"lmp"}]},"placementRef":"south"}`
	startedBy(t, s.post("/miniclusters", "writer", body))
	raw, err := json.Marshal(s.hub.objects[hubAPI+"namespaces/physics/fleetminiclusters/new"])
	if err != nil {
		t.Fatal(err)
	}
	var f v1alpha1.FleetMiniCluster
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	m := &f.Spec.MiniCluster
	if f.Labels["a"] != "b" || f.Spec.Priority != 5 || f.Spec.Retries != 2 || *f.Spec.TTLSecondsAfterFinished != 60 || f.Spec.PlacementRef.Name != "south" ||
		f.Spec.Placement != nil || m.Size != 2 || m.MaxSize != 4 || m.Containers[0].Command != "lmp" {
		t.Errorf("got %s", raw)
	}
}

func TestRefusedStarts(t *testing.T) {
	with := func(old, instead string) string { return strings.Replace(startBody, old, instead, 1) }
	cases := map[string]struct {
		body      string
		says      string
		locations []string
	}{
		"unknown field":          {with(`"name"`, `"names":"x","name"`), "validation failed", []string{"body.names"}},
		"unknown in the spec":    {with(`"image"`, `"imgae":"x","image"`), "FleetMiniCluster physics/new: body.miniCluster.containers[0].imgae: there is no such field: correct its name, or remove it", []string{"body.miniCluster.containers[0].imgae"}},
		"unknown in other case":  {with(`"image"`, `"Image":"x","image"`), "there is no such field", []string{"body.miniCluster.containers[0].Image"}},
		"unknown in a placement": {with(`"numberOfClusters"`, `"numberOfCluster"`), "there is no such field", []string{"body.placement.numberOfCluster"}},
		"a text for a number":    {with(`"size":2`, `"size":"2"`), "must be a whole number, and is a string: correct its value", []string{"body.miniCluster.size"}},
		"a size of 0":            {with(`"size":2`, `"size":0`), "must not be 0", []string{"body.miniCluster.size"}},
		"a wrong size":           {with(`"size":2`, `"size":2,"maxSize":1`), "FleetMiniCluster physics/new: spec.miniCluster.size: Invalid value: 2: must not be above maxSize", []string{"body.miniCluster.size"}},
		"no container":           {with(`"containers":[{"image":"lammps","resources":{"limits":{"cpu":4}}}]`, `"containers":[]`), "spec.miniCluster.containers", []string{"body.miniCluster.containers"}},
		"no name":                {with(`"name":"new",`, ""), "is missing: name it, or set generateName", []string{"body.name"}},
		"two names":              {with(`"name"`, `"generateName":"x-","name"`), "remove one of them", []string{"body.generateName"}},
		"two placements":         {with(`"placement"`, `"placementRef":"south","placement"`), "set exactly one of placement and placementRef", []string{"body.placementRef"}},
		"no placement":           {with(`,"placement":{"numberOfClusters":1}`, ""), "set exactly one", []string{"body.placementRef"}},
		"another path":           {with(`"physics"`, `"../physics"`), "is no name of a namespace", []string{"body.namespace"}},
		"a label of MiniFleet":   {with(`"name"`, `"labels":{"minifleet.dev/source":"x"},"name"`), "is for MiniFleet to set: remove it", []string{"body.labels[minifleet.dev/source]"}},
		"two wrongs":             {with(`"size":2`, `"sise":2,"tasck":1`), "there is no such field", []string{"body.miniCluster.sise", "body.miniCluster.tasck"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, true)
			w := s.post("/miniclusters", "writer", c.body)
			detail, locations := problemOf(t, w)
			if w.Code != http.StatusUnprocessableEntity || !strings.Contains(detail, c.says) || !slices.Equal(locations, c.locations) {
				t.Errorf("%d %q at %q", w.Code, detail, locations)
			}
			if asked := s.hub.asked(); len(asked) > 0 {
				t.Errorf("the hub was asked %+v", asked)
			}
		})
	}
}
