package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	createJob  = `{"stage":"ResponseComplete","verb":"create","userAgent":"minifleet/v1","objectRef":{"resource":"jobs","name":"a"},"responseStatus":{"code":201}}`
	lostRace   = `{"stage":"ResponseComplete","verb":"update","userAgent":"minifleet","objectRef":{"resource":"fleetminiclusters","subresource":"status","name":"a"},"responseStatus":{"code":409}}`
	endOfWatch = `{"stage":"ResponseComplete","verb":"watch","userAgent":"minifleet","objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}`
	panicked   = `{"stage":"Panic","verb":"create","objectRef":{"resource":"jobs"},"responseStatus":{"code":500}}`
)

func TestTrailReadsWhatIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	trail, err := openTrail(map[string]string{"alpine": path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trail.close() }()
	for _, step := range []struct {
		write string
		want  []string
	}{
		{write: "", want: nil},
		{write: createJob[:40], want: nil},
		{write: createJob[40:] + "\n" + endOfWatch + "\n" + panicked + "\n" + lostRace[:1], want: []string{"create jobs"}},
		{write: lostRace[1:] + "\n", want: []string{"update fleetminiclusters/status (409)"}},
	} {
		if _, err := file.WriteString(step.write); err != nil {
			t.Fatal(err)
		}
		events, err := trail.read()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range events {
			got = append(got, events[i].what())
			if events[i].cluster != "alpine" || !events[i].minifleet() {
				t.Errorf("event %+v is not the controller's to alpine", events[i])
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", step.write, diff)
		}
	}
}
