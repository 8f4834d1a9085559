package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// root is where the repository lies in the file system that kustomize sees, which is in memory.
const root = "/repository"

// maxStack is how deep kustomize may call itself, in bytes of the stack.
const maxStack = 64 << 20

// Child is the process that builds: it confines itself, reads a request from in and writes the response to out. Its
// arguments are the bytes of memory and the seconds of processors that it may take. An error is for the exit code, and its
// text for standard error.
func Child(args []string, in io.Reader, out io.Writer) error {
	const two = 2
	if len(args) != two {
		return errors.New("this command is for minifleet itself: it builds an overlay that it is handed")
	}
	memory, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return err
	}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(memory / 8 * 5) // the rest is what the runtime maps and does not use
	http.DefaultTransport = offline{}
	confine(memory, seconds)
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	return json.NewEncoder(out).Encode(answer(&r))
}

// offline refuses requests, also where the kernel does not.
type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nothing is fetched while an overlay is built")
}

// answer builds. The panics of kustomize are errors of what it builds.
func answer(r *request) (out response) {
	defer func() {
		if cause := recover(); cause != nil {
			out = response{Error: fmt.Sprintf("kustomize panics: %v", cause)}
		}
	}()
	built, err := kustomize(r.Files, r.Dir)
	if err != nil {
		return response{Error: located(r.Files, err.Error())}
	}
	documents := built.Resources()
	if len(documents) > r.Documents {
		return response{Error: fmt.Sprintf("it makes %d objects, and the limit is %d; build it in parts, each named in spec.paths", len(documents), r.Documents)}
	}
	for i, o := range documents {
		text, err := o.AsYAML()
		if err != nil {
			return response{Error: located(r.Files, err.Error())}
		}
		if i > 0 {
			out.YAML = append(out.YAML, "---\n"...)
		}
		if out.YAML = append(out.YAML, text...); int64(len(out.YAML)) > r.Output {
			return response{Error: fmt.Sprintf("it makes more than %d bytes; build it in parts, each named in spec.paths", r.Output)}
		}
	}
	out.Origins, out.Generated = origins(r, documents)
	return out
}

// located puts the file before an error of YAML, of which kustomize tells the line alone.
func located(files map[string][]byte, message string) string {
	if !strings.Contains(message, "yaml: ") {
		return message
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		decoder := yamlv3.NewDecoder(bytes.NewReader(files[name]))
		for {
			var content any
			err := decoder.Decode(&content)
			if err == nil {
				continue
			}
			if cause := strings.Join(strings.Fields(err.Error()), " "); !errors.Is(err, io.EOF) && strings.Contains(strings.Join(strings.Fields(message), " "), cause) && !strings.Contains(message, name) {
				return name + ": " + message
			}
			break
		}
	}
	return message
}

// kustomize builds a folder as the command kustomize build does. That files may lie outside of the folder of their
// kustomization is the one difference: there is nothing but the repository.
func kustomize(files map[string][]byte, dir string) (resmap.ResMap, error) {
	memory := filesys.MakeFsInMemory()
	for name, data := range files {
		if err := memory.WriteFile(path.Join(root, name), data); err != nil {
			return nil, err
		}
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(memory, path.Join(root, dir))
}

// origins says for each document which file it comes from, and which documents generators have made. kustomize knows that
// when it notes it in annotations, which may change what patches make of an object: so this builds a second time.
func origins(r *request, documents []*resource.Resource) (from, generated []string) {
	from = make([]string, len(documents))
	defer func() {
		_ = recover() // without origins, the overlay itself is named
	}()
	traced, err := withOrigins(r.Files[r.Kustomization])
	if err != nil {
		return from, nil
	}
	r.Files[r.Kustomization] = traced
	again, err := kustomize(r.Files, r.Dir)
	if err != nil || again.Size() != len(documents) {
		return from, nil
	}
	for i, o := range again.Resources() {
		origin, err := o.GetOrigin()
		if err != nil || origin == nil || o.GetKind() != documents[i].GetKind() || o.GetName() != documents[i].GetName() {
			continue
		}
		file := origin.Path
		if file == "" {
			file = origin.ConfiguredIn
		}
		from[i] = path.Join(r.Dir, file)
		if origin.ConfiguredIn != "" && (o.GetKind() == "ConfigMap" || o.GetKind() == "Secret") {
			generated = append(generated, o.GetKind()+" "+o.GetName())
		}
	}
	return from, generated
}

// withOrigins has kustomize note origins.
func withOrigins(kustomization []byte) ([]byte, error) {
	text, err := yaml.YAMLToJSON(kustomization)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for name := range fields {
		if strings.EqualFold(name, "buildMetadata") {
			delete(fields, name)
		}
	}
	fields["buildMetadata"] = json.RawMessage(`["` + types.OriginAnnotations + `"]`)
	return json.Marshal(fields)
}
