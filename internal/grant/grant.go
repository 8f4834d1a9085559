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

// Asked is what is held against what a source declares.
type Asked struct {
	// Digest is that of the MiniCluster (runs.FullDigest).
	Digest string
	// Overrides is the digest of the overrides of its placement (override.Digest), empty for none.
	Overrides string
	// Unplaced says that its Placement is not there, so that nothing begins before it is, and this is asked again.
	Unplaced bool
	// Unenforced is why the hub does not keep those from editing spec.allow of GitSources who may not, empty if it does.
	Unenforced string
}

// Set is what one FleetMiniCluster may use, and who could allow more.
type Set struct {
	Namespace Namespace
	// Source is the GitSource that declares the object as it is, or nil.
	Source *v1alpha1.GitSource
	// NoSource is why the GitSource that the object names does not count, with a space at its end; empty if it
	// does, or if none is named.
	NoSource string

	// undeclared is the same for the object as its overrides change it, where the source counts for it as it is.
	undeclared string
}

// For finds who allows what a FleetMiniCluster uses as it is. The source is the one that its label names, or nil if there
// is none.
//
// A label proves nothing, since whoever edits the object can set it: a source counts for an object if its
// status, which the controller alone writes, says that Git declares just this. Where Git declares overrides with it, it is
// just this only with these.
func For(namespace Namespace, object *v1alpha1.FleetMiniCluster, source *v1alpha1.GitSource, asked Asked) Set {
	s := Set{Namespace: namespace}
	name := object.Labels[v1alpha1.LabelSource]
	if name == "" {
		return s
	}
	if source == nil || source.Namespace != object.Namespace || source.Name != name {
		s.NoSource = fmt.Sprintf("There is no GitSource %s/%s any more that could allow it. ", object.Namespace, name)
		return s
	}
	overrides, declared := declaredOverrides(source.Status.Needs, object.Name, asked.Digest)
	differ := fmt.Sprintf("%s has not the overrides that GitSource %s/%s declares for this MiniCluster, so what that allows does not count. ",
		placementOf(object), object.Namespace, name)
	switch {
	case len(source.Spec.Allow) > 0 && asked.Unenforced != "":
		s.NoSource = fmt.Sprintf("What GitSource %s/%s allows does not count: %s. ", object.Namespace, name, asked.Unenforced)
	case !declared:
		s.NoSource = fmt.Sprintf("GitSource %s/%s does not declare this MiniCluster as it is here, so what it allows does not count. ", object.Namespace, name)
	case slices.Contains(overrides, asked.Overrides) || asked.Unplaced:
		s.Source = source
	case slices.Contains(overrides, ""):
		s.Source, s.undeclared = source, differ
	default:
		s.NoSource = differ
	}
	return s
}

// placementOf says where the overrides of a FleetMiniCluster are.
func placementOf(object *v1alpha1.FleetMiniCluster) string {
	if ref := object.Spec.PlacementRef; ref != nil && object.Spec.Placement == nil {
		return fmt.Sprintf("Placement %s/%s", object.Namespace, ref.Name)
	}
	return "spec.placement"
}

// declaredOverrides are the digests of the overrides that a source declares with a MiniCluster of just this digest, if it
// declares that at all. There may be several, while Git's last change is being applied.
func declaredOverrides(needs []v1alpha1.DeclaredNeed, name, digest string) (overrides []string, declared bool) {
	for _, n := range needs {
		if n.Name == name && n.Digest == digest {
			overrides, declared = append(overrides, n.Overrides), true
		}
	}
	return overrides, declared
}

// Overridden is the Set for the object as overrides of its placement have changed it. They are judged by what the
// namespace allows where the source does not declare them.
func (s Set) Overridden() Set {
	if s.undeclared != "" {
		s.Source, s.NoSource = nil, s.undeclared
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

// union is sorted, and has each permission once.
func union(a, b []v1alpha1.Permission) []v1alpha1.Permission {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
