package v1alpha1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations of a MiniCluster in Git that say what its FleetMiniCluster has fields for. Upstream's MiniCluster has
// none, and the file is to stay valid there.
const (
	// AnnotationPriority is spec.priority.
	AnnotationPriority = "minifleet.dev/priority"
	// AnnotationRetries is spec.retries.
	AnnotationRetries = "minifleet.dev/retries"
	// AnnotationOnChange is spec.onChange.
	AnnotationOnChange = "minifleet.dev/on-change"
)

// maxRetries is that of the schema.
const maxRetries = 100

// Set sets the fields that annotations of a MiniCluster in Git are for. The errors name the annotations at a
// path; what they are about stays as it is.
func (s *FleetMiniClusterSpec) Set(annotations map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	number := func(key string, lowest, highest int64, into *int32) {
		value, ok := annotations[key]
		if !ok {
			return
		}
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < lowest || n > highest {
			errs = append(errs, field.Invalid(at.Key(key), value, "must be a whole number from "+
				strconv.FormatInt(lowest, 10)+" to "+strconv.FormatInt(highest, 10)+", in quotes"))
			return
		}
		*into = int32(n)
	}
	number(AnnotationPriority, -1<<31, 1<<31-1, &s.Priority)
	number(AnnotationRetries, 0, maxRetries, &s.Retries)
	if value, ok := annotations[AnnotationOnChange]; ok {
		if c := OnChange(value); c == AfterCompletion || c == Replace {
			s.OnChange = c
		} else {
			errs = append(errs, field.NotSupported(at.Key(AnnotationOnChange), value, []OnChange{AfterCompletion, Replace}))
		}
	}
	return errs
}
