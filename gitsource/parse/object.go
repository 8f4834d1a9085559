package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// object decodes and checks one document of a picked kind, and keeps it when nothing is wrong with it.
func (f *file) object(node *yaml.Node, head header, o Object) {
	claimed := len(f.out.events)
	f.claim(head, o)
	c := &converter{lines: map[string]position{}, spend: f.spend}
	tell := func(problems ...Problem) {
		for _, p := range problems {
			p.Object = head.object()
			f.report(p)
		}
	}
	value, err := c.value(node, "", 0)
	if f.exceeded != nil {
		return
	}
	if err != nil {
		line := node.Line
		var limit *tooMuch
		if errors.As(err, &limit) {
			line = limit.line
		}
		tell(Problem{Line: line, Message: err.Error()})
		return
	}
	fields, _ := value.(map[string]any) // it is one, since it has a kind
	delete(fields, "status")            // of objects that were exported from a cluster
	meta, problems, decoded := decode(c, fields, &o)
	problems = append(c.problems, problems...)
	o.DeclaresSuspend = declaresSuspend(o.Kind, fields)
	if decoded && usable(c.problems) {
		for _, e := range f.check(meta, &o) {
			problems = append(problems, Problem{Line: c.lineOf(e.Field), Field: e.Field, Message: e.ErrorBody()})
		}
		problems = append(problems, zeros(c, fields, o.Kind)...)
	}
	if usable(problems) {
		problems = append(problems, warnings(c, &o)...)
	}
	tell(problems...)
	if usable(problems) {
		if f.opts.Lines && !f.built {
			o.Lines = make(map[string]int, len(c.lines))
			for field, at := range c.lines {
				o.Lines[field] = at.line
			}
		}
		f.out.events[claimed].object = &o
	}
}

// declaresSuspend tells a spec.suspend of false from none, which are the same once decoded.
func declaresSuspend(kind string, fields map[string]any) bool {
	spec, _ := fields["spec"].(map[string]any)
	return kind == KindFleetMiniCluster && spec["suspend"] != nil
}

// decode decodes fields strictly into the type of o.Kind. Fields that are not known keep nothing from being
// decoded; values of the wrong type do.
func decode(c *converter, fields map[string]any, o *Object) (meta *metav1.ObjectMeta, problems []Problem, decoded bool) {
	var into any
	switch o.Kind {
	case KindMiniCluster:
		o.MiniCluster = &fluxv1alpha2.MiniCluster{}
		into, meta = o.MiniCluster, &o.MiniCluster.ObjectMeta
	case KindFleetMiniCluster:
		o.FleetMiniCluster = &v1alpha1.FleetMiniCluster{}
		into, meta = o.FleetMiniCluster, &o.FleetMiniCluster.ObjectMeta
	default:
		o.Placement = &v1alpha1.Placement{}
		into, meta = o.Placement, &o.Placement.ObjectMeta
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return meta, []Problem{{Line: o.Line, Message: "cannot be read: " + err.Error()}}, false
	}
	strict, err := kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields) // a map has no field twice
	if err != nil {
		problems = append(problems, typeProblem(c, err))
	}
	for _, e := range strict {
		problems = append(problems, unknownField(c, o.Kind, e))
	}
	return meta, problems, err == nil
}

// spec is the field of the MiniCluster in an object of this kind, nil when it has none.
func spec(kind string) *field.Path {
	switch kind {
	case KindMiniCluster:
		return field.NewPath("spec")
	case KindFleetMiniCluster:
		return field.NewPath("spec", "miniCluster")
	}
	return nil
}

// zeros tells of numbers that are written as 0 where 0 is no value. Decoded they are like fields that are not
// there, and would silently get the default.
func zeros(c *converter, fields map[string]any, kind string) []Problem {
	var problems []Problem
	at := spec(kind)
	if at == nil {
		return nil
	}
	values, _ := fields["spec"].(map[string]any)
	if kind == KindFleetMiniCluster {
		values, _ = values["miniCluster"].(map[string]any)
	}
	for _, name := range []string{"size", "deadlineSeconds"} {
		if number, set := values[name]; set && fmt.Sprint(number) == "0" {
			at := at.Child(name).String()
			problems = append(problems, Problem{Line: c.lineOf(at), Field: at, Message: "Invalid value: 0: must be at least 1; remove the field for its default"})
		}
	}
	return problems
}

// warnings tells of what a MiniCluster says without effect.
func warnings(c *converter, o *Object) []Problem {
	var found field.ErrorList
	switch at := spec(o.Kind); o.Kind {
	case KindMiniCluster:
		found = fluxv1alpha2.Warnings(&o.MiniCluster.Spec, at)
	case KindFleetMiniCluster:
		found = fluxv1alpha2.Warnings(&o.FleetMiniCluster.Spec.MiniCluster, at)
	}
	var problems []Problem
	for _, e := range found {
		problems = append(problems, Problem{Line: c.lineOf(e.Field), Field: e.Field, Message: e.Detail, Warning: true})
	}
	return problems
}

// usable reports whether there are only warnings.
func usable(problems []Problem) bool {
	return !slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// obsolete are fields of MiniClusters that earlier versions of the API had. Manifests that are in use
// still set them, since upstream's operator ignores them as every field that its CRD does not know.
var obsolete = []string{
	"spec.volumes",
	"spec.containers.existingVolumes",
	"spec.containers.securityContext.addCapabilities",
}

// unknownField tells of a field that the type does not have.
func unknownField(c *converter, kind string, err error) Problem {
	var unknown kjson.FieldError
	if !errors.As(err, &unknown) {
		return Problem{Line: c.lines[""].line, Message: err.Error()}
	}
	name := unknown.FieldPath()
	if kind == KindMiniCluster && slices.Contains(obsolete, plain(name)) {
		return Problem{Line: c.lineOf(name), Field: name, Warning: true,
			Message: "is a field of an earlier version of the API and has no effect; remove it"}
	}
	return Problem{Line: c.lineOf(name), Field: name,
		Message: "there is no such field; correct its name or its indentation, or remove it"}
}

// typeProblem tells of a value of the wrong type. The decoder names fields without list indices and map
// keys, so the first field that fits in name and in type of value is taken.
func typeProblem(c *converter, err error) Problem {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return Problem{Line: c.lines[""].line, Message: "cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	got, _, _ := strings.Cut(wrong.Value, " ") // "number 1.5" is a number
	message := fmt.Sprintf("must be %s, and is a %s", goType(wrong.Type.Kind()), got)
	for _, name := range c.order {
		if at := c.lines[name]; at.value == got && plain(name) == plain(wrong.Field) {
			return Problem{Line: at.line, Field: name, Message: message}
		}
	}
	return Problem{Line: c.lineOf(wrong.Field), Field: wrong.Field, Message: message}
}

var indices = regexp.MustCompile(`\[\d+\]`)

func plain(field string) string { return indices.ReplaceAllString(field, "") }

// goType is what a Go kind is called in a manifest.
func goType(kind reflect.Kind) string {
	switch kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text (put it in quotes)"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "a mapping"
	}
}

// check validates a decoded object.
func (f *file) check(meta *metav1.ObjectMeta, o *Object) field.ErrorList {
	errs := f.checkMeta(meta, o)
	at := field.NewPath("spec")
	switch o.Kind {
	case KindMiniCluster:
		errs = append(errs, fluxv1alpha2.Validate(meta.Name, &o.MiniCluster.Spec, at)...)
		errs = append(errs, new(v1alpha1.FleetMiniClusterSpec).Set(meta.Annotations, field.NewPath("metadata", "annotations"))...)
	case KindFleetMiniCluster:
		errs = append(errs, checkFleet(meta.Name, &o.FleetMiniCluster.Spec, at)...)
	default:
		errs = append(errs, invalidName(meta.Name, field.NewPath("metadata", "name"))...)
		errs = append(errs, checkPlacement(&o.Placement.Spec, at)...)
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		// That an empty name is no valid name either is not told a second time.
		return meta.Name == "" && e.Field == "metadata.name" && e.Type == field.ErrorTypeInvalid
	})
}

func (f *file) checkMeta(meta *metav1.ObjectMeta, o *Object) field.ErrorList {
	at := field.NewPath("metadata")
	var errs field.ErrorList
	if meta.GenerateName != "" {
		errs = append(errs, field.Forbidden(at.Child("generateName"), "what is in Git needs a name of its own; set metadata.name"))
	} else if meta.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "set metadata.name"))
	}
	if meta.Name == "" {
		return errs
	}
	if meta.Namespace != "" && !f.opts.AnyNamespace && meta.Namespace != f.opts.Namespace {
		errs = append(errs, field.Invalid(at.Child("namespace"), meta.Namespace, fmt.Sprintf(
			"a %s from this source lands in the namespace of its GitSource, %q; remove the field, or make a GitSource in that namespace",
			o.Kind, f.opts.Namespace)))
	}
	errs = append(errs, metav1validation.ValidateLabels(meta.Labels, at.Child("labels"))...)
	return append(errs, apivalidation.ValidateAnnotations(meta.Annotations, at.Child("annotations"))...)
}

func invalidName(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	return errs
}

func checkFleet(name string, spec *v1alpha1.FleetMiniClusterSpec, at *field.Path) field.ErrorList {
	errs := fluxv1alpha2.Validate(name, &spec.MiniCluster, at.Child("miniCluster"))
	if (spec.Placement == nil) == (spec.PlacementRef == nil) {
		errs = append(errs, field.Invalid(at, "", "set exactly one of placement and placementRef"))
	}
	if spec.Placement != nil {
		errs = append(errs, checkPlacement(spec.Placement, at.Child("placement"))...)
	}
	if ref := spec.PlacementRef; ref != nil {
		if ref.Name == "" {
			errs = append(errs, field.Required(at.Child("placementRef", "name"), "name a Placement"))
		} else {
			errs = append(errs, invalidName(ref.Name, at.Child("placementRef", "name"))...)
		}
	}
	switch spec.OnChange {
	case "", v1alpha1.AfterCompletion, v1alpha1.Replace:
	default:
		errs = append(errs, field.NotSupported(at.Child("onChange"), spec.OnChange,
			[]v1alpha1.OnChange{v1alpha1.AfterCompletion, v1alpha1.Replace}))
	}
	return errs
}

func checkPlacement(spec *v1alpha1.PlacementSpec, at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(&spec.ClusterSelector,
		metav1validation.LabelSelectorValidationOptions{}, at.Child("clusterSelector"))
	if n := spec.NumberOfClusters; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(at.Child("numberOfClusters"), *n,
			"must be at least 1; without it, all members that match run the MiniCluster"))
	}
	if t := spec.PendingTimeout; t != nil && t.Duration < minPendingTimeout {
		errs = append(errs, field.Invalid(at.Child("pendingTimeout"), t.Duration.String(), "must be at least 10s; without it, a run waits for as long as it takes"))
	}
	if f := spec.Failover; f != nil {
		if f.AfterSeconds < minFailover || f.AfterSeconds > maxFailover {
			errs = append(errs, field.Invalid(at.Child("failover", "afterSeconds"), f.AfterSeconds, "must be from 10 to 604800"))
		}
		if f.Fencing != "" && f.Fencing != v1alpha1.FenceProvenGone && f.Fencing != v1alpha1.FenceManual {
			errs = append(errs, field.NotSupported(at.Child("failover", "fencing"), f.Fencing, []v1alpha1.Fencing{v1alpha1.FenceProvenGone, v1alpha1.FenceManual}))
		}
	}
	return errs
}

// Bounds of the schema.
const (
	minPendingTimeout        = 10 * time.Second
	minFailover, maxFailover = 10, 604800 // seconds
)
