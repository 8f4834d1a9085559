package v1alpha2

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxNameLength leaves room in a hostname, NAME-INDEX, for ten thousand pods.
	maxNameLength = 58
	// maxSize is how many pods Kubernetes lets an indexed Job run at once.
	maxSize = 100_000
	// maxContainers is far more than a pod of any use has. It bounds what a few lines of YAML can become.
	maxContainers = 100
	// maxVolumes is as much of one container.
	maxVolumes = 1000
	// maxDeadline is the longest time, in seconds, that Kubernetes can count; a longer one would be over at once.
	maxDeadline = math.MaxInt64 / int64(time.Second)
	// maxPathLength is that of Linux, in bytes.
	maxPathLength = 4095
)

// Validate reports every problem of a MiniCluster called name, each with what to do about it. The
// paths of the problems start at path, the spec's own. It judges the spec as Default would leave it,
// and changes nothing.
//
// What it accepts, an API server accepts as it is rendered. Nothing in a problem steers a terminal, and
// none quotes a certificate.
func Validate(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	spec = spec.DeepCopy()
	spec.Default()

	unfit, text := validateText(spec, path)
	var errs field.ErrorList
	errs = append(errs, validateName(name, spec, field.NewPath("metadata", "name"))...)
	errs = append(errs, validateSizes(spec, path)...)
	errs = append(errs, validateContainers(name, spec, path.Child("containers"))...)
	errs = append(errs, validateServices(name, spec, path.Child("services"))...)
	errs = append(errs, validateServiceNames(name, spec, path)...)
	errs = append(errs, validateFlux(name, spec, path.Child("flux"))...)
	errs = append(errs, validatePod(name, spec, path)...)
	errs = append(errs, validateUsers(spec, path)...)
	errs = append(errs, validateLabels(spec.JobLabels, path.Child("jobLabels"))...)
	errs = append(errs, validateArchive(spec.Archive.Path, path.Child("archive", "path"))...)
	errs = append(errs, validateExtent(spec, text, path)...)
	// Of text that cannot be used at all, nothing else is worth telling.
	fields := map[string]bool{}
	for _, e := range unfit {
		fields[e.Field] = true
	}
	return append(unfit, slices.DeleteFunc(errs, func(e *field.Error) bool { return fields[e.Field] })...)
}

// validateName checks the name for its three uses: the headless Service, the container that runs Flux,
// and the pods' hostnames, NAME-INDEX.
func validateName(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	errs := invalid(path, name, validation.IsDNS1035Label(name))
	if len(errs) > 0 {
		return errs
	}
	if len(name) > maxNameLength {
		return field.ErrorList{field.Invalid(path, short(name), fmt.Sprintf(
			"must be no more than %d characters, for its pods are called NAME-INDEX: choose a shorter name", maxNameLength))}
	}
	return validateHosts(name, spec.LargestSize(), path)
}

// validateHosts checks that size hosts called NAME-INDEX have names that are no longer than DNS allows.
func validateHosts(name string, size int32, path *field.Path) field.ErrorList {
	last := name + "-" + strconv.Itoa(int(max(size, 1)-1))
	if len(last) <= validation.DNS1123LabelMaxLength {
		return nil
	}
	return field.ErrorList{field.Invalid(path, short(name), fmt.Sprintf(
		"the last of its hosts would be called %s, of %d characters, and a hostname has at most %d: choose a shorter name",
		short(last), len(last), validation.DNS1123LabelMaxLength))}
}

func validateSizes(spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Size < 1 {
		errs = append(errs, field.Invalid(path.Child("size"), spec.Size, "must be at least 1: the lead broker needs a pod"))
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"maxSize", spec.MaxSize}, {"minSize", spec.MinSize}, {"tasks", *spec.Tasks}, {"backoffLimit", spec.BackoffLimit},
	} {
		if f.value < 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "must not be negative"))
		}
	}
	errs = append(errs, atMost(spec.Size, path.Child("size"))...)
	errs = append(errs, atMost(spec.MaxSize, path.Child("maxSize"))...)
	if spec.MaxSize > 0 && spec.Size > spec.MaxSize {
		errs = append(errs, field.Invalid(path.Child("size"), spec.Size,
			fmt.Sprintf("must not be above maxSize, %d: raise maxSize or lower size", spec.MaxSize)))
	}
	if spec.Size > 0 && spec.MinSize > spec.Size {
		errs = append(errs, field.Invalid(path.Child("minSize"), spec.MinSize,
			fmt.Sprintf("must not be above size, %d: Flux would wait for brokers that never come", spec.Size)))
	}
	if spec.DeadlineSeconds < 1 || spec.DeadlineSeconds > maxDeadline {
		errs = append(errs, field.Invalid(path.Child("deadlineSeconds"), spec.DeadlineSeconds,
			fmt.Sprintf("must be from 1 to %d seconds", maxDeadline)))
	}
	return errs
}

// atMost checks a number of pods.
func atMost(size int32, path *field.Path) field.ErrorList {
	if size <= maxSize {
		return nil
	}
	return field.ErrorList{field.Invalid(path, size, fmt.Sprintf("must be at most %d: an indexed Job has no more pods", maxSize))}
}

// validateArchive checks the path of the archive, which stands among the options of the lead broker.
func validateArchive(archive string, path *field.Path) field.ErrorList {
	if errs := validateAbsolute(archive, path); len(errs) > 0 {
		return errs
	}
	if strings.Contains(archive, ",") {
		// Flux splits the options of its brokers at commas.
		return field.ErrorList{field.Invalid(path, short(archive), "must not contain a comma")}
	}
	return nil
}

// validateAbsolute checks a path in a container; empty stands for a default.
func validateAbsolute(value string, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return nil
	case !strings.HasPrefix(value, "/"):
		return field.ErrorList{field.Invalid(path, short(value), "must be an absolute path: begin it with /")}
	case len(value) > maxPathLength:
		return field.ErrorList{field.Invalid(path, short(value), fmt.Sprintf("must be no more than %d bytes", maxPathLength))}
	}
	return nil
}

func validateLabels(labels map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := key(path, name)
		errs = append(errs, invalid(at, name, validation.IsQualifiedName(name))...)
		errs = append(errs, invalid(at, labels[name], validation.IsValidLabelValue(labels[name]))...)
	}
	return errs
}

// validateObjectName checks the name of a Secret, a ConfigMap or another object that is there; empty is none.
func validateObjectName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return invalid(path, name, validation.IsDNS1123Subdomain(name))
}

// notSupported is the problem of a value that is none of those known.
func notSupported(path *field.Path, value string, known ...string) field.ErrorList {
	return field.ErrorList{field.NotSupported(path, short(value), known)}
}

// invalid turns the messages of the API machinery's checks into problems of one field.
func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	if text, ok := value.(string); ok {
		value = short(text)
	}
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// maxShown is how many characters of a value a problem quotes, so that what to do about it is still read.
const maxShown = 80

// short is the beginning of a text.
func short(text string) string {
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown]) + "…"
}

// key is the path of an entry of a map. A key that does not fit on a line of text is written as Go would.
func key(path *field.Path, name string) *field.Path {
	quoted := strconv.Quote(short(name))
	if quoted != `"`+name+`"` {
		return path.Key(quoted)
	}
	return path.Key(name)
}
