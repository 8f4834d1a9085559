package render_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/render"
)

type spec = fluxv1alpha2.MiniClusterSpec

// withoutEffect are the fields that change nothing that is rendered, by the start of their path.
var withoutEffect = map[string]string{
	"spec.cleanup": "acts after a run, not on it: the hub removes what was rendered",

	"spec.containers[0].name":                "the container that runs Flux is called as the MiniCluster is",
	"spec.containers[0].runFlux":             "it does already",
	"spec.containers[0].noWrapEntrypoint":    "the container that runs Flux needs the entrypoint",
	"spec.containers[0].commands.servicePre": "is for sidecars",
	"spec.containers[1].commands.brokerPre":  "is for the container that runs Flux",
	"spec.containers[1].commands.workerPre":  "is for the container that runs Flux",
	"spec.containers[1].commands.prefix":     "is for the container that runs Flux",
	"spec.containers[1].launcher":            "is for the container that runs Flux",
	"spec.containers[1].batch":               "is for the container that runs Flux",
	"spec.containers[1].batchRaw":            "is for the container that runs Flux",
	"spec.containers[1].logs":                "is for the container that runs Flux",
	"spec.containers[1].runFlux":             "exactly one container runs Flux",
	"spec.services[0].runFlux":               "a service has no part in Flux",
	"spec.services[0].commands.pre":          "is for the brokers; refused, as upstream",
	"spec.services[0].commands.brokerPre":    "is for the brokers; refused, as upstream",
	"spec.services[0].commands.workerPre":    "is for the brokers; refused, as upstream",
	"spec.services[0].commands.prefix":       "is for the container that runs Flux",
	"spec.services[0].launcher":              "is for the container that runs Flux",
	"spec.services[0].batch":                 "is for the container that runs Flux",
	"spec.services[0].batchRaw":              "is for the container that runs Flux",
	"spec.services[0].logs":                  "is for the container that runs Flux",
	"spec.containers[0].volumes.emptyDir":    "a volume with nothing but a path is one already",
	"spec.containers[1].volumes.emptyDir":    "a volume with nothing but a path is one already",
	"spec.services[0].volumes.emptyDir":      "a volume with nothing but a path is one already",
}

// values are what a field is set to where any text or number would not do, by the end of its path.
var values = map[string]any{
	".imagePullPolicy":   "Never",
	".emptyDirMedium":    "memory",
	".emptyDirSizeLimit": "1Gi",
	".hostPath":          "/set",
	".logs":              "/set",
	".workingDir":        "/set",
	".mountPath":         "/set",
	".connectTimeout":    "9s",
	".logLevel":          int32(7),
	".curveCert":         string(certificate("set")),
	"spec.archive.path":  "/set",
	".restartPolicy":     "OnFailure",
	".dnsPolicy":         "Default",
	".effect":            "NoExecute",
	".operator":          "Equal",
	"spec.size":          int32(3),
	"spec.maxSize":       int32(9),
	"spec.minSize":       int32(1),
}

// needs are what must be set besides a field for it to mean anything, by the end of its path.
var needs = map[string]func(*spec){
	".batchRaw": func(s *spec) { s.Containers[0].Batch = true },
	"commands.script": func(s *spec) {
		s.Containers[0].Command, s.Containers[1].Command, s.Services[0].Command = "", "", ""
	},
	".items":               func(s *spec) { eachVolume(s, func(v *fluxv1alpha2.ContainerVolume) { v.ConfigMapName = "map" }) },
	".csiDriverAttributes": func(s *spec) { eachVolume(s, func(v *fluxv1alpha2.ContainerVolume) { v.CSIDriver = "driver" }) },
	"pod.resources":        func(s *spec) { s.Pod.RuntimeClassName = "class" },
	".hostlist":            func(s *spec) { s.Flux.Bursting.Clusters = nil },
	".leadBroker":          func(s *spec) { s.Flux.Bursting.LeadBroker = lead },
}

var lead = fluxv1alpha2.FluxBroker{Address: "192.0.2.1", Name: "lead", Size: 4, Port: 8050}

func eachVolume(s *spec, change func(*fluxv1alpha2.ContainerVolume)) {
	for _, containers := range [][]fluxv1alpha2.MiniClusterContainer{s.Containers, s.Services} {
		for i := range containers {
			for name, volume := range containers[i].Volumes {
				change(&volume)
				containers[i].Volumes[name] = volume
			}
		}
	}
}

// every is a spec with an element in each list and map of structs, so that a walk reaches all fields.
func every() *spec {
	container := func(name string) fluxv1alpha2.MiniClusterContainer {
		return fluxv1alpha2.MiniClusterContainer{
			Name: name, Command: "true",
			Secrets: map[string]fluxv1alpha2.Secret{"VARIABLE": {Name: "secret", Key: "key"}},
			Volumes: map[string]fluxv1alpha2.ContainerVolume{"volume-" + name: {Path: "/volume-" + name}},
		}
	}
	runner := container("runner")
	runner.RunFlux = true
	s := &spec{
		Size: 2, MaxSize: 4,
		Containers: []fluxv1alpha2.MiniClusterContainer{runner, container("side")},
		Services:   []fluxv1alpha2.MiniClusterContainer{container("service")},
		Pod:        fluxv1alpha2.PodSpec{Tolerations: []fluxv1alpha2.Toleration{{Key: "key"}}},
	}
	s.Flux.Bursting.Clusters = []fluxv1alpha2.BurstedCluster{{Name: "cluster", Size: 2}}
	s.Default()
	return s
}

// effect is what setting one field changes.
type effect struct {
	path    string
	changes []string // what is rendered differently, as the document names it
	err     error    // why it cannot be set
}

// effects sets each field of a MiniCluster alone.
func effects(t *testing.T) []effect {
	t.Helper()
	var paths []string
	walk(reflect.ValueOf(every()).Elem(), "spec", func(path string, _ func()) { paths = append(paths, path) })
	if len(paths) < 128 {
		t.Fatalf("the walk found %d fields only", len(paths))
	}
	var out []effect
	for _, path := range paths {
		in := minimal("")
		in.Spec = *every()
		if need := bySuffix(needs, path); need != nil {
			need(&in.Spec)
		}
		before, err := render.Render(in)
		if err != nil {
			t.Fatalf("%s: before it is set: %v", path, err)
		}
		walk(reflect.ValueOf(&in.Spec).Elem(), "spec", func(at string, set func()) {
			if at == path {
				set()
			}
		})
		e := effect{path: path}
		after, err := render.Render(in)
		if e.err = err; err == nil {
			e.changes = changes(t, before, after)
		}
		out = append(out, e)
	}
	return out
}

// TestEveryFieldTakesEffect fails for any field that changes nothing that is rendered without a reason, and
// for any reason that is out of date.
func TestEveryFieldTakesEffect(t *testing.T) {
	unused := map[string]bool{}
	for prefix := range withoutEffect {
		unused[prefix] = true
	}
	for _, e := range effects(t) {
		prefix, reason := reasonFor(e.path)
		delete(unused, prefix)
		switch {
		case reason != "" && len(e.changes) > 0:
			t.Errorf("%s takes effect, and yet there is a reason why not: %s", e.path, reason)
		case reason == "" && e.err != nil:
			t.Errorf("%s: %v", e.path, e.err)
		case reason == "" && len(e.changes) == 0:
			t.Errorf("%s changes nothing that is rendered", e.path)
		}
	}
	for prefix := range unused {
		t.Errorf("no field is at %s", prefix)
	}
}

// reasonFor is why a field has no effect, with the path that this is said for.
func reasonFor(path string) (prefix, reason string) {
	for prefix, reason := range withoutEffect {
		if path == prefix || strings.HasPrefix(path, prefix+".") || strings.HasPrefix(path, prefix+"[") {
			return prefix, reason
		}
	}
	return "", ""
}

func bySuffix[V any](m map[string]V, path string) (found V) {
	for suffix, value := range m {
		if strings.HasSuffix(path, suffix) || strings.Contains(path, suffix+".") {
			return value
		}
	}
	return found
}

// walk visits each field below v, with a function that sets it to something else.
func walk(v reflect.Value, path string, visit func(path string, set func())) {
	if set := setCore(v); set != nil {
		visit(path, set)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			walk(v.Field(i), path+"."+name, visit)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			visit(path, func() { v.Set(reflect.Append(v, other(reflect.New(v.Type().Elem()).Elem(), path))) })
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Map:
		walkMap(v, path, visit)
	case reflect.Pointer:
		visit(path, func() {
			value := reflect.New(v.Type().Elem())
			value.Elem().Set(other(v.Elem(), path))
			v.Set(value)
		})
	default:
		visit(path, func() { v.Set(other(v, path)) })
	}
}

func walkMap(v reflect.Value, path string, visit func(path string, set func())) {
	if v.Type().Elem().Kind() != reflect.Struct {
		visit(path, func() {
			value := reflect.New(v.Type().Elem()).Elem()
			if value.Kind() == reflect.Slice {
				value = reflect.ValueOf([]string{"value"})
			} else {
				value.SetString("value")
			}
			changed := reflect.MakeMap(v.Type())
			changed.SetMapIndex(reflect.ValueOf("set"), value)
			v.Set(changed)
		})
		return
	}
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		walk(value, path, func(at string, set func()) {
			visit(at, func() {
				set()
				v.SetMapIndex(key, value)
			})
		})
	}
}

// other is a value for the field at path that differs from the one it has.
func other(v reflect.Value, path string) reflect.Value {
	if value := bySuffix(values, path); value != nil {
		return reflect.ValueOf(value)
	}
	value := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		value.SetBool(!v.Bool())
	case reflect.String:
		value.SetString("set")
	case reflect.Int32, reflect.Int64:
		value.SetInt(v.Int() + 3)
	default:
		panic("no value for " + path + ", a " + v.Kind().String())
	}
	return value
}

// setCore sets a type of the core API, of which one field stands for all: they are copied whole.
func setCore(v reflect.Value) func() {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	switch p := v.Addr().Interface().(type) {
	case *corev1.ResourceRequirements:
		return func() { p.Limits = list }
	case *corev1.ResourceList:
		return func() { *p = list }
	case *corev1.SecurityContext:
		return func() { p.ReadOnlyRootFilesystem = ptr.To(true) }
	case *corev1.PodSecurityContext:
		return func() { p.SupplementalGroups = []int64{3} }
	}
	return nil
}
