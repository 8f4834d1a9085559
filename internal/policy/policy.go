// Package policy says which permissions a MiniCluster needs, because it sets fields that reach beyond its
// own pods, and whether it has them. It is pure: a spec comes in, and one Need for each such field goes out.
//
// Whoever can push to a repository can otherwise be root on every node. So such a field is refused unless
// somebody who answers for the nodes allows it. Each permission, and what it opens, has one place here:
// needs.go walks a MiniCluster, security.go judges security contexts, devices.go resources, tolerations.go what
// tolerations open, and annotations.go annotations and labels.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Rules are what a hub can set of the policy. The zero value is what holds unless something is set.
type Rules struct {
	// PodAnnotations are the annotations of pods that take no permission: keys, or beginnings of keys that end in *.
	// They open labels too that would take the permission PodAnnotations. nil: DefaultPodAnnotations.
	PodAnnotations []string
}

// Need is a field that takes a permission.
type Need struct {
	Permission v1alpha1.Permission
	Field      *field.Path
	// Why says briefly what the field does, and holds text of the MiniCluster.
	Why string
}

// Denied returns the needs that allowed does not cover, in their order.
func Denied(needs []Need, allowed []v1alpha1.Permission) []Need {
	var denied []Need
	for _, n := range needs {
		if !slices.Contains(allowed, n.Permission) {
			denied = append(denied, n)
		}
	}
	return denied
}

// Permissions returns those of needs, sorted, each once.
func Permissions(needs []Need) []v1alpha1.Permission {
	var all []v1alpha1.Permission
	for _, n := range needs {
		all = append(all, n.Permission)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Says is the need as text, without its field.
func (n Need) Says() string {
	return fmt.Sprintf("%s, which takes the permission %s", n.Why, n.Permission)
}

// Explain lists needs with their fields in one sentence, and counts those beyond most.
func Explain(needs []Need, most int) string {
	var parts []string
	for _, n := range needs[:min(len(needs), most)] {
		parts = append(parts, fmt.Sprintf("%s: %s", n.Field, n.Says()))
	}
	if more := len(needs) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more fields, of the permissions %s", more, Join(Permissions(needs[most:]))))
	}
	return strings.Join(parts, "; ")
}

// Join writes permissions as the annotation of a namespace has them, and as a sentence can.
func Join(permissions []v1alpha1.Permission) string {
	var all []string
	for _, p := range permissions {
		all = append(all, string(p))
	}
	return strings.Join(all, ",")
}

// Parse reads a list of permissions that are separated by commas or spaces. Unknown ones are returned
// apart, since a misspelt permission allows nothing and should be told.
func Parse(list string) (permissions []v1alpha1.Permission, unknown []string) {
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		if p := v1alpha1.Permission(name); slices.Contains(v1alpha1.Permissions(), p) {
			permissions = append(permissions, p)
		} else {
			unknown = append(unknown, name)
		}
	}
	return permissions, unknown
}
