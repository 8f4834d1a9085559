package v1alpha2

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// linesAllowed are the fields whose text may have several lines, and tabs: shell, files, and values that
// only their reader understands. No other text may have any control character.
var linesAllowed = []string{
	"command", "commands", "lifeCycle", "submitCommand", "optionFlags",
	"brokerConfig", "curveCert", "environment", "annotations", "csiDriverAttributes",
}

// validateText checks every string of a MiniCluster, keys of maps among them, for what no script, no file
// and no API server could take as it is. It walks all fields, so that none is forgotten, and counts the bytes of all.
func validateText(spec *MiniClusterSpec, path *field.Path) (errs field.ErrorList, bytes int) {
	w := textWalk{visit: func(w *textWalk, text string, lines bool) {
		bytes += len(text)
		if problem := unfitText(text, lines); problem != "" {
			errs = append(errs, &field.Error{
				Type: field.ErrorTypeInvalid, Field: w.path(path).String(), BadValue: field.OmitValueType{}, Detail: problem,
			})
		}
	}}
	w.walk(reflect.ValueOf(spec).Elem(), false)
	return errs, bytes
}

// textWalk visits strings. Where it stands is made a path only when somebody asks: each MiniCluster has hundreds of fields, is
// checked several times in its life, and nearly always has nothing to be said of it.
type textWalk struct {
	visit func(w *textWalk, text string, lines bool)
	at    []textStep
}

// textStep is one step down: into a field or a key by its name, or into an item by its index.
type textStep struct {
	name  string
	index int
	kind  reflect.Kind // of what is stepped into: Struct, Map or Slice
}

func (w *textWalk) path(from *field.Path) *field.Path {
	for _, step := range w.at {
		switch step.kind {
		case reflect.Slice:
			from = from.Index(step.index)
		case reflect.Map:
			from = key(from, step.name)
		default:
			from = from.Child(step.name)
		}
	}
	return from
}

// walk visits the strings of v, in the order of their fields and keys.
func (w *textWalk) walk(v reflect.Value, lines bool) {
	switch v.Kind() {
	case reflect.String:
		w.visit(w, v.String(), lines)
	case reflect.Pointer:
		if !v.IsNil() {
			w.walk(v.Elem(), lines)
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.into(textStep{index: i, kind: reflect.Slice}, v.Index(i), lines)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			step := textStep{name: k.String(), kind: reflect.Map}
			w.into(step, k, false)
			w.into(step, v.MapIndex(k), lines)
		}
	case reflect.Struct:
		for _, f := range textFieldsOf(v.Type()) {
			w.into(textStep{name: f.name, kind: reflect.Struct}, v.Field(f.index), lines || f.lines)
		}
	}
}

func (w *textWalk) into(step textStep, v reflect.Value, lines bool) {
	w.at = append(w.at, step)
	w.walk(v, lines)
	w.at = w.at[:len(w.at)-1]
}

// textField is a field that can have text.
type textField struct {
	index int
	name  string // in JSON
	lines bool   // its text may have several lines
}

// textFields are the fields of each struct that was walked, by its reflect.Type.
var textFields sync.Map

func textFieldsOf(t reflect.Type) []textField {
	if known, ok := textFields.Load(t); ok {
		return known.([]textField) //nolint:forcetypeassert // nothing else is stored
	}
	var out []textField
	for i := range t.NumField() {
		f := t.Field(i)
		if !canHaveText(f.Type) {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, textField{index: i, name: name, lines: slices.Contains(linesAllowed, name)})
	}
	textFields.Store(t, out)
	return out
}

// canHaveText is false for numbers, truths and quantities, and for pointers to and lists of these.
func canHaveText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return canHaveText(t.Elem())
	case reflect.Struct:
		return t != reflect.TypeFor[resource.Quantity]()
	case reflect.String, reflect.Map:
		return true
	default:
		return false
	}
}

// unfitText says what is wrong with a text, or "".
func unfitText(text string, lines bool) string {
	if !utf8.ValidString(text) {
		return "is not valid UTF-8: save the file as UTF-8"
	}
	at := strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && (!lines || r != '\n' && r != '\t')
	})
	if at < 0 {
		return ""
	}
	switch text[at] {
	case '\n':
		return "must be a single line: remove the line break"
	case '\r':
		return "has a carriage return: save the file with Unix line ends"
	default:
		r, _ := utf8.DecodeRuneInString(text[at:])
		return fmt.Sprintf("has the control character %U: remove it", r)
	}
}

const (
	// maxText bounds all text of a spec, in bytes. Kubernetes stores no object of more than 1.5 MiB, and a Job
	// says everything that its MiniCluster says.
	maxText = 1 << 20
	// maxScripts bounds the text of the ConfigMap that pods run, in bytes: Kubernetes allows 1 MiB, and some of
	// it is MiniFleet's own.
	maxScripts = 1<<20 - 32<<10
	// maxMounts bounds the mounts of all containers of a pod, since each has those of the containers before it.
	maxMounts = 2000
)

const tooLarge = "Kubernetes stores no object so large: put scripts and data into the image, a volume or a ConfigMap of your own"

// validateExtent checks how much is asked of the API server; total are the bytes of all text.
func validateExtent(spec *MiniClusterSpec, total int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if total > maxText {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("has %d bytes of text, and %d are the most; %s", total, maxText, tooLarge)))
	} else if scripts := scriptBytes(spec); scripts > maxScripts {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"its commands and files become scripts of about %d bytes, and %d are the most; %s", scripts, maxScripts, tooLarge)))
	}
	mounts, all := 0, map[string]bool{}
	for i := range spec.Containers {
		for name := range spec.Containers[i].Volumes {
			all[name] = true
		}
		mounts += len(all)
	}
	if mounts > maxMounts {
		errs = append(errs, field.Forbidden(path.Child("containers"), fmt.Sprintf(
			"their volumes become %d mounts, for each container has those of the ones before it, and %d are the most: use fewer volumes",
			mounts, maxMounts)))
	}
	return errs
}

// scriptBytes is an upper bound of what becomes of the spec's text in the ConfigMap.
func scriptBytes(spec *MiniClusterSpec) int {
	flux := &spec.Flux
	total := len(flux.BrokerConfig) + 3*len(flux.Bursting.Hostlist)
	for name, value := range flux.Environment {
		total += len(name) + quotedBytes(value)
	}
	for _, text := range []string{flux.SubmitCommand, flux.OptionFlags, flux.Wrap} {
		total += 2 * quotedBytes(text)
	}
	for i := range flux.Bursting.Clusters {
		total += 3 * (len(flux.Bursting.Clusters[i].Name) + 20)
	}
	for _, containers := range [][]MiniClusterContainer{spec.Containers, spec.Services} {
		for i := range containers {
			c := &containers[i]
			const entrypoint = 8 << 10 // each has one of its own
			total += entrypoint + quotedBytes(c.Command) + len(c.Commands.Script) + len(c.Commands.Prefix)
			for _, text := range []string{
				c.Commands.Init, c.Commands.Pre, c.Commands.Post, c.Commands.BrokerPre, c.Commands.WorkerPre, c.Commands.ServicePre,
			} {
				total += len(text)
			}
			if c.Batch {
				const submission = 150 // what stands before each job
				total += submission * (1 + strings.Count(c.Command, "\n"))
			}
		}
	}
	return total
}

// quotedBytes is the most that a text takes within the quotes of a shell.
func quotedBytes(text string) int {
	return len(text) + 3*strings.Count(text, "'") + strings.Count(text, `"`) + strings.Count(text, `\`) +
		strings.Count(text, "$") + strings.Count(text, "`")
}
