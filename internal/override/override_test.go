package override_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/override"
)

func spec() *fluxv1alpha2.MiniClusterSpec {
	return &fluxv1alpha2.MiniClusterSpec{Size: 2, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "ghcr.io/app:1", Command: "app"}}}
}

func op(op v1alpha1.PatchOp, path, value string) v1alpha1.JSONPatch {
	p := v1alpha1.JSONPatch{Op: op, Path: path}
	if value != "" {
		p.Value = &apiextensionsv1.JSON{Raw: []byte(value)}
	}
	return p
}

func move(op v1alpha1.PatchOp, from, path string) v1alpha1.JSONPatch {
	return v1alpha1.JSONPatch{Op: op, From: from, Path: path}
}

// on selects members of a site; an empty one selects all.
func on(name, site string, patches ...v1alpha1.JSONPatch) v1alpha1.ClusterOverride {
	o := v1alpha1.ClusterOverride{Name: name, Patches: patches}
	if site != "" {
		o.ClusterSelector.MatchLabels = map[string]string{"site": site}
	}
	return o
}

func TestApply(t *testing.T) {
	north := map[string]string{"site": "north"}
	registry := on("registry", "north", op("replace", "/containers/0/image", `"registry.north/app:1"`))
	cases := map[string]struct {
		overrides []v1alpha1.ClusterOverride
		want      func(*fluxv1alpha2.MiniClusterSpec)
		names     []string
	}{
		"none":       {nil, nil, nil},
		"not for it": {[]v1alpha1.ClusterOverride{on("registry", "south", op("replace", "/containers/0/image", `"x"`))}, nil, nil},
		"an image":   {[]v1alpha1.ClusterOverride{registry}, func(s *fluxv1alpha2.MiniClusterSpec) { s.Containers[0].Image = "registry.north/app:1" }, []string{"registry"}},
		"one by one": {[]v1alpha1.ClusterOverride{registry, on("other", "", op("test", "/containers/0/image", `"registry.north/app:1"`), op("replace", "/containers/0/image", `"y"`))}, func(s *fluxv1alpha2.MiniClusterSpec) { s.Containers[0].Image = "y" }, []string{"registry", "other"}},
		"parents": {[]v1alpha1.ClusterOverride{on("nodes", "", op("add", "/pod/nodeSelector/example.org~1disk", `"ssd"`))}, func(s *fluxv1alpha2.MiniClusterSpec) {
			s.Pod.NodeSelector = map[string]string{"example.org/disk": "ssd"}
		}, []string{"nodes"}},
		"tasks":     {[]v1alpha1.ClusterOverride{on("tasks", "", op("add", "/tasks", "64"))}, func(s *fluxv1alpha2.MiniClusterSpec) { n := int32(64); s.Tasks = &n }, []string{"tasks"}},
		"take away": {[]v1alpha1.ClusterOverride{on("bare", "", op("remove", "/containers/0/command", ""))}, func(s *fluxv1alpha2.MiniClusterSpec) { s.Containers[0].Command = "" }, []string{"bare"}},
		"to the end": {[]v1alpha1.ClusterOverride{on("more", "", op("add", "/pod/tolerations", "[]"), op("add", "/pod/tolerations/-", `{"key": "gpu", "operator": "Exists"}`))}, func(s *fluxv1alpha2.MiniClusterSpec) {
			s.Pod.Tolerations = []fluxv1alpha2.Toleration{{Key: "gpu", Operator: "Exists"}}
		}, []string{"more"}},
		"copy":        {[]v1alpha1.ClusterOverride{on("copy", "", move("copy", "/containers/0/command", "/containers/0/image"))}, func(s *fluxv1alpha2.MiniClusterSpec) { s.Containers[0].Image = "app" }, []string{"copy"}},
		"nothing new": {[]v1alpha1.ClusterOverride{on("same", "", op("replace", "/size", "2"))}, nil, []string{"same"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in, want := spec(), spec()
			if c.want != nil {
				c.want(want)
			}
			r, err := override.Apply("lammps", in, c.overrides, north)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*want, r.Spec); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.names, r.Names); diff != "" || (r.Digest == "") != (len(c.names) == 0) {
				t.Error(diff, r.Digest)
			}
			if diff := cmp.Diff(spec(), in); diff != "" {
				t.Error("the input has changed: " + diff)
			}
		})
	}
}

func TestDigestIsOfWhatApplies(t *testing.T) {
	digest := func(overrides ...v1alpha1.ClusterOverride) string {
		t.Helper()
		r, err := override.Apply("a", spec(), overrides, map[string]string{"site": "north"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest
	}
	image := func(s string) v1alpha1.JSONPatch { return op("replace", "/containers/0/image", s) }
	one := digest(on("a", "north", image(`"x"`)))
	if one != digest(on("renamed", "", image(`"x"`)), on("b", "south", image(`"y"`))) {
		t.Error("it depends on names, selectors, or what does not apply")
	}
	if one == digest(on("a", "north", image(`"z"`))) {
		t.Error("it does not depend on what is said")
	}
}

func TestRefusals(t *testing.T) {
	double := []v1alpha1.JSONPatch{op("add", "/containers/0/environment", `{"a": "`+strings.Repeat("x", 1000)+`"}`)}
	for range 31 {
		double = append(double, move("copy", "/containers/0", "/containers/-"))
	}
	cases := map[string]struct {
		override v1alpha1.ClusterOverride
		texts    []string
	}{
		"size":              {on("o", "", op("add", "/size", "4")), []string{"size", "the same on all members"}},
		"size by copy":      {on("o", "", op("add", "/tasks", "9"), move("copy", "/tasks", "/size")), []string{"size", "the same on all members"}},
		"maxSize":           {on("o", "", op("add", "/maxSize", "4")), []string{"maxSize"}},
		"cleanup":           {on("o", "", op("add", "/cleanup", "true")), []string{"cleanup"}},
		"no such path":      {on("o", "", op("replace", "/pod/nodeSelector/x", `"y"`)), []string{"/pod/nodeSelector/x"}},
		"no such element":   {on("o", "", op("add", "/containers/4000000000/image", `"x"`)), []string{"containers"}},
		"an unknown field":  {on("o", "", op("add", "/contaners", "[]")), []string{"contaners"}},
		"a wrong type":      {on("o", "", op("replace", "/containers/0/image", "7")), []string{"no MiniCluster"}},
		"not valid":         {on("o", "", op("add", "/containers/0/pullAlways", "true"), op("add", "/deadlineSeconds", "-5")), []string{"deadlineSeconds"}},
		"a test that fails": {on("o", "", op("test", "/containers/0/image", `"other"`)), []string{"test"}},
		"no value":          {on("o", "", op("add", "/tasks", "")), []string{"patches[0]", "set value"}},
		"a value too many":  {on("o", "", op("remove", "/containers/0/command", "1")), []string{"patches[0]", "set value"}},
		"a selector":        {v1alpha1.ClusterOverride{Name: "o", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}, []string{"clusterSelector"}},
		"everything":        {on("o", "", op("replace", "/", "{}")), nil},
		"doubling":          {on("o", "", double...), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := override.Apply("lammps", spec(), []v1alpha1.ClusterOverride{c.override}, nil)
			var e *override.Error
			if !errors.As(err, &e) || e.Override != "o" || !strings.HasPrefix(err.Error(), "override o: ") {
				t.Fatalf("got %v", err)
			}
			for _, w := range c.texts {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}

func FuzzApply(f *testing.F) {
	f.Add("add", "/pod/nodeSelector/x", "", `"y"`)
	f.Add("copy", "/containers/-", "/containers/0", "")
	f.Add("add", "/containers/99999999999/image", "", "1")
	f.Add("remove", "//~1~0~", "", "")
	f.Fuzz(func(t *testing.T, what, path, from, value string) {
		p := v1alpha1.JSONPatch{Op: v1alpha1.PatchOp(what), Path: path, From: from}
		if value != "" {
			p.Value = &apiextensionsv1.JSON{Raw: []byte(value)}
		}
		r, err := override.Apply("lammps", spec(), []v1alpha1.ClusterOverride{on("o", "", p, p)}, nil)
		if err == nil && r.Spec.Size != 2 && r.Spec.Size != 0 {
			t.Errorf("the size is %d", r.Spec.Size)
		}
	})
}
