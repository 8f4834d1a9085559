package override_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/override"
)

func replacing(path, value string, labels map[string]string) v1alpha1.ClusterOverride {
	return v1alpha1.ClusterOverride{Name: "o", ClusterSelector: metav1.LabelSelector{MatchLabels: labels},
		Patches: []v1alpha1.JSONPatch{{Op: v1alpha1.PatchReplace, Path: path, Value: &apiextensionsv1.JSON{Raw: []byte(value)}}}}
}

func TestDigest(t *testing.T) {
	base := replacing("/a", `{"b": 1, "c": "d"}`, map[string]string{"zone": "north"})
	cases := map[string]struct {
		other v1alpha1.ClusterOverride
		same  bool
	}{
		"the order of keys, and spaces": {replacing("/a", `{"c":"d","b":1}`, map[string]string{"zone": "north"}), true},
		"a number in another notation":  {replacing("/a", `{"b": 1.0, "c": "d"}`, map[string]string{"zone": "north"}), true},
		"another value":                 {replacing("/a", `{"b": 2, "c": "d"}`, map[string]string{"zone": "north"}), false},
		"an empty value more":           {replacing("/a", `{"b": 1, "c": "d", "e": {}}`, map[string]string{"zone": "north"}), false},
		"a large number":                {replacing("/a", `9007199254740993`, map[string]string{"zone": "north"}), false},
		"another path":                  {replacing("/b", `{"b": 1, "c": "d"}`, map[string]string{"zone": "north"}), false},
		"other members":                 {replacing("/a", `{"b": 1, "c": "d"}`, nil), false},
	}
	want := override.Digest([]v1alpha1.ClusterOverride{base})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := override.Digest([]v1alpha1.ClusterOverride{c.other})
			if (got == want) != c.same || len(got) != 64 {
				t.Errorf("%s and %s, want the same: %t", got, want, c.same)
			}
		})
	}
	if string(base.Patches[0].Value.Raw) != `{"b": 1, "c": "d"}` {
		t.Error("the override was changed")
	}
	twice := override.Digest([]v1alpha1.ClusterOverride{base, base})
	if twice == want || override.Digest(nil) != "" {
		t.Errorf("two: %s, one: %s, none: %q", twice, want, override.Digest(nil))
	}
	near := func(n string) string { return override.Digest([]v1alpha1.ClusterOverride{replacing("/a", n, nil)}) }
	if near("9007199254740993") == near("9007199254740992") {
		t.Error("two large numbers have one digest")
	}
}
