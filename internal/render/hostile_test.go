package render_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/render"
)

// hostileValues would make a file called owned if a shell ran them, and break what they are pasted into.
var hostileValues = []string{
	"$(touch owned)", "`touch owned`", "a'; touch owned; '", `a"; touch owned; "`, "a\ntouch owned\nb", "a; touch owned #",
	"-ü %s%n {{.Name}} {{id}} \\ ", "${PATH}$PATH*?[a]~!",
	"a\nEND\ntouch owned\n", "x[$(touch owned)]", "a\"\n[bootstrap]\nhosts = []\n#",
}

// shellByMeaning are the fields that are shell, by the end of their path, and brokerConfig, which is TOML.
var shellByMeaning = map[string]string{
	".command":             "it is the command",
	".commands.prefix":     "its words come before those of the submission",
	".commands.script":     "it is a script",
	".commands.init":       "it is sourced",
	".commands.pre":        "it is sourced",
	".commands.post":       "it is sourced",
	".commands.workerPre":  "it is sourced",
	".commands.brokerPre":  "it is sourced",
	".commands.servicePre": "it is sourced",
	".flux.submitCommand":  "its words come before the flags of the submission",
	".flux.brokerConfig":   "it is the broker's configuration, as it is",
}

// TestHostileValues sets each string of the spec to each hostile value. Where validation lets it through
// and it reaches a file of the pods, the scripts run and must not run it, and broker.toml keeps its form.
func TestHostileValues(t *testing.T) {
	tested, exempt := map[string]bool{}, map[string]bool{}
	for _, path := range stringPaths() {
		if suffix := shellSuffix(path); suffix != "" {
			exempt[suffix] = true
			continue
		}
		before, err := renderFiles(*hostileBaseFor(path))
		if err != nil {
			t.Fatalf("%s: before it is set: %v", path, err)
		}
		for i, value := range hostileValues {
			in, after := hostileSpec(path, value)
			if in == nil {
				in, after = hostileSpec(path, "/x"+value) // where only an absolute path is taken
			}
			if in == nil || maps.Equal(before, after) {
				continue // refused, or no file of the pods has it
			}
			tested[path] = true
			t.Run(fmt.Sprintf("%s %d", path, i), func(t *testing.T) {
				t.Parallel()
				checkHostile(t, *in, before["broker.toml"], after["broker.toml"])
			})
		}
	}
	for suffix := range shellByMeaning {
		if !exempt[suffix] {
			t.Errorf("no field ends with %s", suffix)
		}
	}
	// What keeps this test from passing because it tests nothing.
	for _, path := range []string{"spec.containers[0].logs", "spec.archive.path", "spec.flux.container.mountPath", "spec.flux.environment", "spec.flux.optionFlags", "spec.flux.wrap"} {
		if !tested[path] {
			t.Errorf("no hostile value of %s reaches the pods' files; tested are %q", path, slices.Sorted(maps.Keys(tested)))
		}
	}
}

// hostileBaseFor is the spec in which a path is set, before it is.
func hostileBaseFor(path string) *spec {
	s := hostileBase()
	if need := bySuffix(needs, path); need != nil {
		need(s)
	}
	return s
}

// hostileSpec is a spec with the value at the path, and the files of its pods. It is nil if validation refuses it.
func hostileSpec(path, value string) (s *spec, files map[string]string) {
	s = hostileBaseFor(path)
	eachString(reflect.ValueOf(s).Elem(), "spec", func(at string, set func(string)) {
		if at == path {
			set(value)
		}
	})
	files, err := renderFiles(*s)
	if err != nil {
		return nil, nil
	}
	return s, files
}

func checkHostile(t *testing.T, s spec, tomlBefore, tomlAfter string) {
	if diff := cmp.Diff(tomlForm(tomlBefore), tomlForm(tomlAfter)); diff != "" {
		t.Errorf("broker.toml changed its form:\n%s", diff)
	}
	in := minimal("")
	in.Spec = s
	p := newPod(t, in, "0")
	scripts, err := filepath.Glob(p.path("flux_operator/*.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("bash -n %s: %v\n%s", filepath.Base(script), err, out)
		}
	}
	p.write("flux_operator/view.sh", `. "`+p.path("flux_operator/flux-view.sh")+`"`)
	for _, script := range []string{"wait-0.sh", "start-1.sh", "view.sh"} {
		output, code := p.run(script)
		if strings.Contains(output, "syntax error") {
			t.Errorf("%s ended with %d: %s", script, code, output)
		}
	}
	err = filepath.WalkDir(p.root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "owned" {
			t.Errorf("a value was run as shell: %s is there", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tomlForm is TOML without what its strings hold.
func tomlForm(text string) string {
	return tomlStrings.ReplaceAllString(text, `""`)
}

var tomlStrings = regexp.MustCompile(`"([^"\\\n]|\\.)*"`)

// hostileBase runs a batch of one job, since that has the most scripts, with a sidecar that does not wait.
func hostileBase() *spec {
	s := every()
	s.Containers[0].Command, s.Containers[0].Batch = "true", true
	s.Flux.NoWaitSocket = true
	s.Flux.Environment = map[string]string{"KEY": "value"}
	return s
}

func renderFiles(s spec) (map[string]string, error) {
	in := minimal("")
	in.Spec = s
	bundle, err := render.Render(in)
	if err != nil {
		return nil, err
	}
	return bundle.ConfigMap.Data, nil
}

func shellSuffix(path string) string {
	for suffix := range shellByMeaning {
		if strings.HasSuffix(path, suffix) {
			return suffix
		}
	}
	return ""
}

// stringPaths are the paths of all strings of the spec.
func stringPaths() []string {
	var paths []string
	eachString(reflect.ValueOf(hostileBase()).Elem(), "spec", func(path string, _ func(string)) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	})
	return paths
}

// eachString visits the strings below v, among them the keys and values of maps, with a function that
// sets each. Types of the core API are none of ours.
func eachString(v reflect.Value, path string, visit func(path string, set func(string))) {
	if setCore(v) != nil {
		return
	}
	switch v.Kind() {
	case reflect.String:
		visit(path, v.SetString)
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			eachString(v.Field(i), path+"."+name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachString(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case reflect.Map:
		eachStringOfMap(v, path, visit)
	}
}

func eachStringOfMap(v reflect.Value, path string, visit func(path string, set func(string))) {
	key := reflect.ValueOf("KEY")
	if keys := v.MapKeys(); len(keys) > 0 {
		key = keys[0]
	}
	value := reflect.New(v.Type().Elem()).Elem()
	if v.Len() > 0 {
		value.Set(v.MapIndex(key))
	}
	put := func(key, value reflect.Value) {
		changed := reflect.MakeMap(v.Type())
		changed.SetMapIndex(key, value)
		v.Set(changed)
	}
	visit(path+" (key)", func(text string) { put(reflect.ValueOf(text), value) })
	eachString(value, path, func(at string, set func(string)) {
		visit(at, func(text string) {
			set(text)
			put(key, value)
		})
	})
}

// TestShellcheck checks the scripts of all manifests. The pieces of shell that the spec holds are not ours
// to check.
func TestShellcheck(t *testing.T) {
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed: apt-get install shellcheck")
	}
	shared, err := miniclustertest.Shared()
	if err != nil {
		t.Logf("only the scripts of our own manifests are checked: %v", err)
	}
	directory := t.TempDir()
	var scripts []string
	for i, m := range slices.Concat(miniclustertest.Own(), shared) {
		for name, text := range mustRender(t, load(t, m)).ConfigMap.Data {
			file := filepath.Join(directory, fmt.Sprintf("%d-%s-%s", i, m.Name, name))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if ours.MatchString(name) {
				scripts = append(scripts, file)
			}
		}
	}
	arguments := append([]string{"--shell=bash", "--exclude=" + strings.Join(slices.Sorted(maps.Keys(shellcheckExcluded)), ",")}, scripts...)
	if out, err := exec.Command(shellcheck, arguments...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}

// ours are the files of a pod that are scripts of ours.
var ours = regexp.MustCompile(`^(flux-.*|load-.*|wait-[0-9]+|start-[0-9]+)\.sh$`)

var shellcheckExcluded = map[string]string{
	"SC1090": "files that are sourced are elsewhere",
	"SC1091": "files that are sourced are elsewhere",
	"SC2054": "flux start --wrap wants commas between its arguments",
	"SC2034": "some variables are for users' shell",
	"SC2016": "some shell is for another shell",
	"SC2120": "a broker without a program is meant",
	"SC2119": "a broker without a program is meant",
	"SC2317": "traps call their functions",
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
