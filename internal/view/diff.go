package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// States of a Difference.
const (
	DiffSame      = "Same"
	DiffDifferent = "Different"
	DiffMissing   = "Missing"
	DiffExtra     = "Extra"
	DiffUnknown   = "Unknown"
)

// What is shown of the keys of a Secret.
const (
	secretSet     = "<set>"
	secretChanged = "<changed>"
)

// maxYAML is how many bytes of an object are shown.
const maxYAML = 256 << 10

// Comparison is an object that is wanted on a member and the one that is there. Either may be nil. Both are of the types of
// Kubernetes.
type Comparison struct {
	Member, Kind, Namespace, Name string
	Want, Have                    any
	// Changed are the keys of a Secret whose values are not those that were put there.
	Changed []string
	Message string
}

// Difference compares the two. Of the one that is there it takes what is wanted, and omits what the member has added.
func (c Comparison) Difference() (Difference, error) {
	d := Difference{Member: c.Member, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Message: c.Message}
	want, err := c.fields(c.Want, nil)
	if err != nil {
		return d, err
	}
	have, err := c.fields(c.Have, c.Changed)
	if err != nil {
		return d, err
	}
	switch {
	case want == nil && have == nil:
		return d, fmt.Errorf("nothing to compare of %s %s", c.Kind, c.Name)
	case have == nil:
		d.State = DiffMissing
	case want == nil:
		d.State = DiffExtra
	default:
		have = c.wanted(want, have)
		if d.State = DiffDifferent; reflect.DeepEqual(pruned(want), pruned(have)) {
			d.State, have = DiffSame, nil
		}
	}
	d.Desired, d.Live = text(want), text(have)
	return d, nil
}

// digests are annotations of ours that tell people nothing.
var digests = []string{
	v1alpha1.AnnotationDigest, v1alpha1.AnnotationRunDigest, v1alpha1.AnnotationSuspended, v1alpha1.AnnotationOwnerUID, "minifleet.dev/content",
}

// fields are those of an object that somebody may have asked for, without the values of a Secret. They are nil for nil.
func (c *Comparison) fields(obj any, changed []string) (map[string]any, error) {
	if obj == nil || reflect.ValueOf(obj).Kind() == reflect.Pointer && reflect.ValueOf(obj).IsNil() {
		return nil, nil
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	delete(all, "status")
	delete(all, "apiVersion")
	all["kind"] = c.Kind
	meta, _ := all["metadata"].(map[string]any)
	kept := map[string]any{"name": c.Name, "namespace": c.Namespace}
	for _, field := range []string{"labels", "annotations"} {
		if m, ok := meta[field].(map[string]any); ok && len(m) > 0 {
			kept[field] = m
		}
	}
	if annotations, ok := kept["annotations"].(map[string]any); ok {
		for _, name := range digests {
			delete(annotations, name)
		}
	}
	all["metadata"] = kept
	if c.Kind == "Secret" {
		hideValues(all, changed)
	}
	return withoutNull(all).(map[string]any), nil //nolint:forcetypeassert // a map stays one
}

// hideValues keeps of a Secret the names of its keys.
func hideValues(secret map[string]any, changed []string) {
	keys := map[string]any{}
	for _, field := range []string{"data", "stringData"} {
		values, _ := secret[field].(map[string]any)
		for key := range values {
			if keys[key] = secretSet; slices.Contains(changed, key) {
				keys[key] = secretChanged
			}
		}
		delete(secret, field)
	}
	secret["data"] = keys
	// What kubectl apply writes there holds the values.
	if meta, ok := secret["metadata"].(map[string]any); ok {
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
}

func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			v[key] = withoutNull(value)
		}
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	}
	return v
}

// wanted is of an object what another one has, and what nobody but us has any business to add to.
func (c *Comparison) wanted(want, have map[string]any) map[string]any {
	// A member adds containers, volumes and tolerations to pods, not to the templates of Jobs.
	out := project(want, have, c.Kind != "Pod").(map[string]any) //nolint:forcetypeassert // both are maps
	switch c.Kind {
	case "ConfigMap", "Secret":
		for _, field := range []string{"data", "binaryData"} {
			if value, ok := have[field]; ok {
				out[field] = value
			}
		}
	case "Service":
		spec, _ := have["spec"].(map[string]any)
		if shown, ok := out["spec"].(map[string]any); ok && spec["selector"] != nil {
			shown["selector"] = spec["selector"]
		}
	}
	return out
}

// project keeps of a value what another one has. What a list has more is kept where extra is set.
func project(want, have any, extra bool) any {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return have
		}
		out := map[string]any{}
		for key, value := range want {
			if there, ok := have[key]; ok {
				out[key] = project(value, there, extra)
			}
		}
		return out
	case []any:
		have, ok := have.([]any)
		if !ok {
			return have
		}
		return projectList(want, have, extra)
	default:
		return have
	}
}

func projectList(want, have []any, extra bool) []any {
	wanted, byName := named(want)
	if _, ok := named(have); !byName || !ok {
		if len(want) != len(have) {
			return have
		}
		out := make([]any, len(have))
		for i := range have {
			out[i] = project(want[i], have[i], extra)
		}
		return out
	}
	out := []any{}
	for _, item := range have {
		twin, ok := wanted[nameOf(item)]
		switch {
		case ok:
			out = append(out, project(twin, item, extra))
		case extra:
			out = append(out, item)
		}
	}
	return out
}

func nameOf(item any) string {
	m, _ := item.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// named are the items of a list by name, ok if each has one of its own.
func named(list []any) (items map[string]any, ok bool) {
	items = map[string]any{}
	for _, item := range list {
		name := nameOf(item)
		if _, twice := items[name]; name == "" || twice {
			return nil, false
		}
		items[name] = item
	}
	return items, true
}

// pruned is a value without what is empty, which a member may omit.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if p := pruned(value); !empty(p) {
				out[key] = p
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = pruned(v[i])
		}
		return out
	default:
		return v
	}
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	default:
		return v == nil
	}
}

// text is an object as YAML, without characters that steer terminals.
func text(fields map[string]any) string {
	if fields == nil {
		return ""
	}
	raw, err := yaml.Marshal(fields)
	if err != nil {
		return ""
	}
	raw = bytes.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, raw)
	if len(raw) > maxYAML {
		return string(raw[:maxYAML]) + "\n# … it is longer than what is shown\n"
	}
	return string(raw)
}
