package parse_test

import (
	"testing"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestOwnersKeepTheirNames(t *testing.T) {
	const manifest = `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: lammps
spec:
  containers:
    - image: example.org/lammps
`
	files := []gitsource.File{{Path: "a-new.yaml", Data: []byte(manifest)}, {Path: "b-old.yaml", Data: []byte(manifest)}}
	for name, tc := range map[string]struct {
		owners map[string]string
		want   string
	}{
		"nobody has it: the first in order":       {nil, "a-new.yaml"},
		"a removed file keeps nothing":            {map[string]string{"FleetMiniCluster/lammps": "c-removed.yaml"}, "a-new.yaml"},
		"a file keeps its own names only":         {map[string]string{"FleetMiniCluster/other": "b-old.yaml"}, "a-new.yaml"},
		"the later file has it already: it keeps": {map[string]string{"FleetMiniCluster/lammps": "b-old.yaml"}, "b-old.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := parse.Tree(files, parse.Options{Owners: tc.owners})
			if len(got.Objects) != 1 || got.Objects[0].Path != tc.want {
				t.Fatalf("objects %+v, want one from %s", got.Objects, tc.want)
			}
			if len(got.Problems) != 1 || got.Problems[0].Path == tc.want {
				t.Fatalf("problems %+v, want one of the other file", got.Problems)
			}
		})
	}
}
