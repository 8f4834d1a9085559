package miniclustertest_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

func TestOwnAreValid(t *testing.T) {
	names := map[string]string{}
	for _, m := range miniclustertest.Own() {
		t.Run(m.Name, func(t *testing.T) {
			var decoded fluxv1alpha2.MiniCluster
			if err := yaml.UnmarshalStrict(m.Text, &decoded); err != nil {
				t.Fatal(err)
			}
			for _, problem := range fluxv1alpha2.Validate(decoded.Name, &decoded.Spec, field.NewPath("spec")) {
				t.Error(problem)
			}
			if other, taken := names[decoded.Name]; taken {
				t.Errorf("its MiniCluster is called %s, as that of %s", decoded.Name, other)
			}
			names[decoded.Name] = m.Name
		})
	}
}

// refused are fields that no valid MiniCluster can set, each with how to set it.
var refused = map[string]func(*fluxv1alpha2.MiniClusterSpec){
	"spec.services[].runFlux":            func(s *fluxv1alpha2.MiniClusterSpec) { s.Services[0].RunFlux = true },
	"spec.services[].commands.pre":       func(s *fluxv1alpha2.MiniClusterSpec) { s.Services[0].Commands.Pre = "true" },
	"spec.services[].commands.brokerPre": func(s *fluxv1alpha2.MiniClusterSpec) { s.Services[0].Commands.BrokerPre = "true" },
	"spec.services[].commands.workerPre": func(s *fluxv1alpha2.MiniClusterSpec) { s.Services[0].Commands.WorkerPre = "true" },
}

// TestEveryFieldIsSet fails for a field of the spec that none of our own manifests sets: set it in the one
// that it fits.
func TestEveryFieldIsSet(t *testing.T) {
	fields := leafFields(reflect.TypeFor[fluxv1alpha2.MiniClusterSpec](), "spec")
	if len(fields) < 128 {
		t.Fatalf("the spec has only the fields %q", fields)
	}
	set := map[string]bool{}
	for _, m := range miniclustertest.Own() {
		decoded, err := m.MiniCluster()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range setFields(reflect.ValueOf(decoded.Spec), "spec") {
			set[path] = true
		}
	}
	for _, path := range fields {
		if _, never := refused[path]; !set[path] && !never {
			t.Errorf("no manifest sets %s", path)
		}
	}
	for path := range set {
		if !slices.Contains(fields, path) {
			t.Errorf("%s is set, and is none of the fields", path)
		}
	}
}

func TestRefusedFieldsAreRefused(t *testing.T) {
	fields := leafFields(reflect.TypeFor[fluxv1alpha2.MiniClusterSpec](), "spec")
	for path, set := range refused {
		t.Run(path, func(t *testing.T) {
			if !slices.Contains(fields, path) {
				t.Fatal("there is no such field")
			}
			spec := fluxv1alpha2.MiniClusterSpec{
				Containers: []fluxv1alpha2.MiniClusterContainer{{Command: "true"}},
				Services:   []fluxv1alpha2.MiniClusterContainer{{Name: "service"}},
			}
			set(&spec)
			want := strings.ReplaceAll(path, "[]", "[0]")
			problems := fluxv1alpha2.Validate("a", &spec, field.NewPath("spec"))
			if !slices.ContainsFunc(problems, func(e *field.Error) bool { return e.Field == want }) {
				t.Errorf("it can be set: the problems are %v", problems)
			}
		})
	}
}

// TestShared says which tests have less to work with where the Flux Operator's examples are missing; `make`
// prints it.
func TestShared(t *testing.T) {
	shared, err := miniclustertest.Shared()
	if err != nil {
		t.Skipf("%v. Not compared: our Jobs with the Flux Operator's. Only with manifests of our own: the tests of parsing, "+
			"policy, scripts, API servers and the whole system.", err)
	}
	for _, m := range shared {
		if _, err := m.MiniCluster(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(m.Path), "job.json")); err != nil {
			t.Error(err)
		}
	}
}

// ours says whether a type is of the API that the manifests are of, and not one of Kubernetes, which is a field
// as a whole.
func ours(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[fluxv1alpha2.MiniClusterSpec]().PkgPath()
}

// leafFields are the paths of the fields of a type that hold no fields of ours. Elements of lists and maps are [].
func leafFields(t reflect.Type, path string) []string {
	switch {
	case ours(t):
		var all []string
		for f := range t.Fields() {
			all = append(all, leafFields(f.Type, path+"."+fieldName(f))...)
		}
		return all
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && ours(t.Elem()):
		return leafFields(t.Elem(), path+"[]")
	}
	return []string{path}
}

// setFields are the paths of leafFields that are not zero.
func setFields(v reflect.Value, path string) []string {
	t := v.Type()
	var all []string
	switch {
	case ours(t):
		for f := range t.Fields() {
			all = append(all, setFields(v.FieldByIndex(f.Index), path+"."+fieldName(f))...)
		}
	case t.Kind() == reflect.Slice && ours(t.Elem()):
		for i := range v.Len() {
			all = append(all, setFields(v.Index(i), path+"[]")...)
		}
	case t.Kind() == reflect.Map && ours(t.Elem()):
		for _, key := range v.MapKeys() {
			all = append(all, setFields(v.MapIndex(key), path+"[]")...)
		}
	case !v.IsZero():
		all = append(all, path)
	}
	return all
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
