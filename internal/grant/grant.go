// Package grant says which permissions a FleetMiniCluster has, and who could allow it more. It is pure: what
// comes in are the annotations of a namespace, a FleetMiniCluster, the GitSource that its label names and the
// digest of what it asks for; what goes out are permissions, and the command that would allow what is missing.
//
// Package policy says which permissions a MiniCluster needs.
package grant

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// MaxDenied is how many fields of one MiniCluster a message names.
	MaxDenied = 10
	// MaxExplained bounds, in bytes, what a message says of these fields, so that there is room for the remedy.
	MaxExplained = 3000

	// maxUnknown is how many unknown permissions a message names.
	maxUnknown = 5
)

// Namespace is what a namespace of the hub allows everything in it.
type Namespace struct {
	Name        string
	Permissions []v1alpha1.Permission
	// Unknown is what the annotation lists that is no permission.
	Unknown []string
}

// OfNamespace reads what a namespace allows from its annotations, nil for a namespace that is not there.
func OfNamespace(name string, annotations map[string]string) Namespace {
	n := Namespace{Name: name}
	n.Permissions, n.Unknown = policy.Parse(annotations[v1alpha1.AnnotationAllow])
	return n
}

// Command lets everything in the namespace use the missing permissions in addition to those it has.
func (n Namespace) Command(missing []v1alpha1.Permission) string {
	return fmt.Sprintf("kubectl annotate --overwrite namespace %s %s=%s", n.Name, v1alpha1.AnnotationAllow, policy.Join(union(n.Permissions, missing)))
}

// UnknownNote says what the annotation lists that is no permission, as the continuation of a message; empty if
// there is nothing of that kind.
func (n Namespace) UnknownNote() string {
	if len(n.Unknown) == 0 {
		return ""
	}
	return sanitize.Text(fmt.Sprintf(". The annotation %s of namespace %s has words that are no permission: %s (there are %s)",
		v1alpha1.AnnotationAllow, n.Name, sanitize.Names(n.Unknown, maxUnknown), policy.Join(v1alpha1.Permissions())), sanitize.MaxNote)
}

// Set is what one FleetMiniCluster may use, and who could allow more.
type Set struct {
	Namespace Namespace
	// Source is the GitSource that declares the object as it is, or nil.
	Source *v1alpha1.GitSource
	// NoSource is why the GitSource that the object names does not count, with a space at its end; empty if it
	// does, or if none is named.
	NoSource string
}

// For finds who allows what a FleetMiniCluster uses. The source is the one that its label names, or nil if there
// is none; the digest is of what the object asks for (runs.FullDigest).
//
// A label proves nothing, since whoever edits the object can set it: a source counts for an object if its
// status, which the controller alone writes, says that Git declares just this.
func For(namespace Namespace, object *v1alpha1.FleetMiniCluster, source *v1alpha1.GitSource, digest string) Set {
	s := Set{Namespace: namespace}
	name := object.Labels[v1alpha1.LabelSource]
	switch {
	case name == "":
	case source == nil || source.Namespace != object.Namespace || source.Name != name:
		s.NoSource = fmt.Sprintf("There is no GitSource %s/%s any more that could allow it. ", object.Namespace, name)
	case !Declares(source.Status.Needs, object.Name, digest):
		s.NoSource = fmt.Sprintf("GitSource %s/%s does not declare this MiniCluster as it is here, so what it allows does not count. ", object.Namespace, name)
	default:
		s.Source = source
	}
	return s
}

// Permissions are those of the namespace and of the source, sorted, each once.
func (s Set) Permissions() []v1alpha1.Permission {
	if s.Source == nil {
		return union(s.Namespace.Permissions, nil)
	}
	return union(s.Namespace.Permissions, s.Source.Spec.Allow)
}

// Remedy says how to allow what is missing.
func (s Set) Remedy(missing []v1alpha1.Permission) string {
	if s.Source != nil {
		return "Remove what is named, or allow it for this source: " + SourceCommand(s.Source, missing) + s.Namespace.UnknownNote()
	}
	return s.NoSource + "Remove what is named, or allow it in this namespace of the hub: " + s.Namespace.Command(missing) + s.Namespace.UnknownNote()
}

// SourceCommand lets a source use more permissions in addition to those it has.
func SourceCommand(source *v1alpha1.GitSource, more []v1alpha1.Permission) string {
	list, err := json.Marshal(union(source.Spec.Allow, more))
	if err != nil {
		panic(err) // not reachable: these are strings
	}
	return fmt.Sprintf(`kubectl -n %s patch gitsource %s --type merge -p '{"spec":{"allow":%s}}'`, source.Namespace, source.Name, list)
}

// Declares says whether a source's declared needs have a MiniCluster with just this digest.
func Declares(needs []v1alpha1.DeclaredNeed, name, digest string) bool {
	return slices.ContainsFunc(needs, func(n v1alpha1.DeclaredNeed) bool { return n.Name == name && n.Digest == digest })
}

// union is sorted, and has each permission once.
func union(a, b []v1alpha1.Permission) []v1alpha1.Permission {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
