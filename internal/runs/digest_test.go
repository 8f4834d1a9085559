package runs_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/runs"
)

func specOf(t *testing.T, text string) *fluxv1alpha2.MiniClusterSpec {
	t.Helper()
	var s fluxv1alpha2.MiniClusterSpec
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	s.Default()
	return &s
}

const full = `
size: 4
maxSize: 8
tasks: 32
interactive: true
jobLabels: {b: "2", a: "1"}
flux: {logLevel: 7, optionFlags: "-Sx=1", scheduler: {queuePolicy: easy}}
logging: {strict: true}
pod: {labels: {y: "2", x: "1"}, nodeSelector: {disk: ssd}, tolerations: [{key: gpu, operator: Exists}]}
containers:
- image: lammps
  command: lmp -in x
  environment: {B: "2", A: "1"}
  ports: [8080, 9090]
  resources: {limits: {cpu: "2", memory: 1Gi, nvidia.com/gpu: "1"}}
  securityContext: {privileged: false, capabilities: {add: [SYS_ADMIN]}}
  volumes: {data: {path: /data, claimName: scratch}}
  commands: {pre: echo}
`

// These must never change: a digest that changes with a new version of MiniFleet runs every MiniCluster
// of every fleet once more. Should this test fail, correct the change that made it fail, never the test.
func TestDigestsAreForEver(t *testing.T) {
	cases := map[string]struct{ name, spec, want string }{
		"minimal": {"hello", "containers: [{command: hostname}]", "e5b3697effb85ad1"},
		"full":    {"lammps", full, "fdd926e49750a743"},
		"elastic": {"grow", "{size: 2, maxSize: 4, containers: [{image: a}]}", "f6ce97b1b125d5f2"},
		"tasks 0": {"hello", "{tasks: 0, containers: [{command: hostname}]}", "4581757e9e17ebd1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := runs.Digest(c.name, specOf(t, c.spec)); got != c.want {
				t.Errorf("the digest of %s has changed from %s to %s", c.name, c.want, got)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	base := "{size: 2, containers: [{image: a, environment: {A: \"1\", B: \"2\"}}]}"
	cases := map[string]struct {
		a, b string
		same bool
	}{
		"the order of maps":          {base, "{containers: [{environment: {B: \"2\", A: \"1\"}, image: a}], size: 2}", true},
		"a default, set":             {base, "{size: 2, tasks: 1, containers: [{image: a, runFlux: true, environment: {A: \"1\", B: \"2\"}}]}", true},
		"empty things":               {base, "{size: 2, jobLabels: {}, pod: {nodeSelector: {}}, services: [], containers: [{image: a, ports: [], environment: {A: \"1\", B: \"2\"}}]}", true},
		"a quantity, in other units": {"containers: [{resources: {limits: {cpu: 1000m}}}]", "containers: [{resources: {limits: {cpu: 1}}}]", true},
		"the size":                   {base, "{size: 3, containers: [{image: a, environment: {A: \"1\", B: \"2\"}}]}", false},
		"the size, where elastic":    {"{size: 2, maxSize: 4, containers: [{image: a}]}", "{size: 3, maxSize: 4, containers: [{image: a}]}", true},
		"the largest size":           {"{size: 2, maxSize: 4, containers: [{image: a}]}", "{size: 2, maxSize: 5, containers: [{image: a}]}", false},
		"no tasks, asked for":        {"containers: [{image: a}]", "{tasks: 0, containers: [{image: a}]}", false},
		"false, asked for":           {"containers: [{image: a}]", "containers: [{image: a, securityContext: {privileged: false}}]", false},
		"an empty value in a map":    {"containers: [{image: a}]", "containers: [{image: a, environment: {A: \"\"}}]", false},
		"the order of containers":    {"containers: [{image: a, runFlux: true}, {image: b}, {image: c}]", "containers: [{image: a, runFlux: true}, {image: c}, {image: b}]", false},
		"an empty container in all":  {"containers: [{image: a, runFlux: true}]", "containers: [{image: a, runFlux: true}, {}]", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := runs.Digest("n", specOf(t, c.a)), runs.Digest("n", specOf(t, c.b))
			if (a == b) != c.same {
				t.Errorf("%s and %s, want the same: %t", a, b, c.same)
			}
			if len(a) != 16 {
				t.Errorf("%q is not 16 digits long", a)
			}
		})
	}
	if runs.Digest("a", specOf(t, base)) == runs.Digest("b", specOf(t, base)) {
		t.Error("the digest does not depend on the name")
	}
}

func TestDigestChangesNothing(t *testing.T) {
	s := specOf(t, full)
	before := s.DeepCopy()
	runs.Digest("n", s)
	if !reflect.DeepEqual(before, s) {
		t.Error("the spec has changed")
	}
}

// Whatever field of the spec is set, alone, the digest differs.
func TestDigestOfEveryField(t *testing.T) {
	base := specOf(t, "containers: [{image: a}]")
	seen := map[string]string{runs.Digest("n", base): "nothing set"}
	fields := 0
	everyLeaf("spec", reflect.TypeFor[fluxv1alpha2.MiniClusterSpec](), func(path string, set func(reflect.Value)) {
		s := &fluxv1alpha2.MiniClusterSpec{}
		set(reflect.ValueOf(s).Elem())
		d := runs.Digest("n", s)
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", path, other)
		}
		seen[d] = path
		fields++
	})
	if fields < 150 {
		t.Errorf("only %d fields", fields)
	}
}

// everyLeaf calls visit for each scalar below a type, with a function that sets it, and nothing else.
func everyLeaf(path string, typ reflect.Type, visit func(string, func(reflect.Value))) {
	leaf := func(value any) { visit(path, func(v reflect.Value) { v.Set(reflect.ValueOf(value).Convert(typ)) }) }
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		leaf(resource.MustParse("3"))
		return
	case reflect.TypeFor[corev1.ResourceList]():
		leaf(corev1.ResourceList{"cpu": resource.MustParse("3")})
		return
	}
	switch typ.Kind() {
	case reflect.String:
		leaf("set")
	case reflect.Bool:
		leaf(true)
	case reflect.Int32, reflect.Int64:
		leaf(5)
	case reflect.Pointer:
		everyLeaf(path, typ.Elem(), func(p string, set func(reflect.Value)) {
			visit(p, func(v reflect.Value) { v.Set(reflect.New(typ.Elem())); set(v.Elem()) })
		})
	case reflect.Slice:
		everyLeaf(path+"[]", typ.Elem(), func(p string, set func(reflect.Value)) {
			visit(p, func(v reflect.Value) { v.Set(reflect.MakeSlice(typ, 1, 1)); set(v.Index(0)) })
		})
	case reflect.Map:
		everyLeaf(path+"{}", typ.Elem(), func(p string, set func(reflect.Value)) {
			visit(p, func(v reflect.Value) {
				e := reflect.New(typ.Elem()).Elem()
				set(e)
				v.Set(reflect.MakeMap(typ))
				v.SetMapIndex(reflect.ValueOf("key").Convert(typ.Key()), e)
			})
		})
	case reflect.Struct:
		for i := range typ.NumField() {
			everyLeaf(path+"."+typ.Field(i).Name, typ.Field(i).Type, func(p string, set func(reflect.Value)) {
				visit(p, func(v reflect.Value) { set(v.Field(i)) })
			})
		}
	default:
		panic(fmt.Sprint(path, " is of a kind that this test does not know: ", typ))
	}
}

// A pointer to zero is not the same as none.
func TestDigestOfZeros(t *testing.T) {
	a, b := specOf(t, "containers: [{image: a}]"), specOf(t, "containers: [{image: a}]")
	b.Containers[0].SecurityContext.RunAsUser = ptr.To[int64](0)
	if runs.Digest("n", a) == runs.Digest("n", b) {
		t.Error("to run as root is not the same as to run as anybody")
	}
}
