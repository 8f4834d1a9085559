// Package tenant says which namespaces of the hub may use a member, and which namespaces of the member stand for them. It
// is pure: what comes in are the spec of a MemberCluster, the labels of a namespace of the hub, and what a namespace of
// the member says of itself; what goes out is whether it may be used, or why not and what to do.
package tenant

import (
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// placeholder stands for the namespace of the hub in a template.
const placeholder = "{namespace}"

// MayUse says whether a namespace of the hub, with these labels, may use a member. Where nothing is said, none may; nor
// may one on the strength of a selector that is none.
func MayUse(access *v1alpha1.NamespaceAccess, namespace string, of map[string]string) bool {
	if access == nil {
		return false
	}
	switch access.From {
	case v1alpha1.NamespacesFromAll:
		return true
	case v1alpha1.NamespacesFromNames:
		return slices.Contains(access.Names, namespace)
	case v1alpha1.NamespacesFromSelector:
		if s := access.Selector; s != nil && len(s.MatchLabels) > 0 && !hasAll(of, s.MatchLabels) {
			return false // which is cheaper to find out than what the selector is
		}
		selector, err := metav1.LabelSelectorAsSelector(access.Selector) // nil selects nothing
		return err == nil && selector.Matches(labels.Set(of))
	}
	return false
}

func hasAll(of, want map[string]string) bool {
	for key, value := range want {
		if has, ok := of[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Target is the namespace of a member that stands for one of the hub, as its MemberCluster says now. It is empty where
// there is none: spec.targetNamespaces.only is set, and names do not have it.
func Target(spec *v1alpha1.MemberClusterSpec, hub string) string {
	if spec.Namespace != "" {
		return spec.Namespace
	}
	t := spec.TargetNamespaces
	if t == nil {
		return hub
	}
	for _, n := range t.Names {
		if n.Namespace == hub {
			return n.Target
		}
	}
	switch {
	case t.Only:
		return ""
	case t.Template == "":
		return hub
	default:
		return strings.ReplaceAll(t.Template, placeholder, hub)
	}
}

// NamespaceOf is the namespace of a member that the objects of a FleetMiniCluster are in: that of its latest run there, as
// long as anything of it may be there, and else the one that the MemberCluster says.
func NamespaceOf(f *v1alpha1.FleetMiniCluster, member string, spec *v1alpha1.MemberClusterSpec) string {
	last := lastOn(f, member)
	switch {
	case last == nil || last.State.Ended() && !listed(f, member):
		return Target(spec, f.Namespace)
	case last.Namespace == "": // its line was written before lines had it
		return Original(spec, f.Namespace)
	default:
		return last.Namespace
	}
}

func lastOn(f *v1alpha1.FleetMiniCluster, member string) *v1alpha1.Run {
	for i := len(f.Status.Runs) - 1; i >= 0; i-- {
		if run := &f.Status.Runs[i]; run.Cluster == member {
			return run
		}
	}
	return nil
}

// listed says whether the status still has a member, as it does until everything is removed from there.
func listed(f *v1alpha1.FleetMiniCluster, member string) bool {
	return slices.ContainsFunc(f.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == member })
}

// Original is the namespace that stood for one of the hub before MemberClusters could say another, and ledgers which.
func Original(spec *v1alpha1.MemberClusterSpec, hub string) string {
	if spec.Namespace != "" {
		return spec.Namespace
	}
	return hub
}

// Confined are the only namespaces of a member that MiniFleet uses, nil where it is not confined to any.
func Confined(spec *v1alpha1.MemberClusterSpec) []string {
	switch t := spec.TargetNamespaces; {
	case spec.Namespace != "":
		return []string{spec.Namespace}
	case t != nil && t.Only:
		var out []string
		for _, n := range t.Names {
			out = append(out, n.Target)
		}
		return out
	default:
		return nil
	}
}

// Listed says whether a MemberCluster itself says that a namespace of the member is for this one of the hub.
func Listed(spec *v1alpha1.MemberClusterSpec, hub, target string) bool {
	if spec.Namespace != "" {
		return spec.Namespace == target
	}
	if spec.TargetNamespaces != nil {
		for _, n := range spec.TargetNamespaces.Names {
			if n.Namespace == hub {
				return n.Target == target
			}
		}
	}
	return false
}

// PodSecurity is the Pod Security level that namespaces enforce which are made on a member.
func PodSecurity(spec *v1alpha1.MemberClusterSpec) v1alpha1.PodSecurityLevel {
	if spec.TargetNamespaces == nil || spec.TargetNamespaces.PodSecurity == "" {
		return v1alpha1.DefaultPodSecurity
	}
	return spec.TargetNamespaces.PodSecurity
}

// Reserved are patterns (path.Match) of namespaces of members that nobody uses.
type Reserved []string

// DefaultReserved are those of Kubernetes, and those that MiniFleet is installed in.
var DefaultReserved = Reserved{"kube-*", "minifleet-system", "minifleet-member"}

// Has says whether a namespace is reserved, and by which pattern.
func (r Reserved) Has(namespace string) (pattern string, is bool) {
	for _, p := range r {
		if match, err := path.Match(p, namespace); err == nil && match {
			return p, true
		}
	}
	return "", false
}

// Validate says which pattern is none.
func (r Reserved) Validate() error {
	for _, p := range r {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("%q is no pattern of namespaces: write a name, with * for any characters", p)
		}
	}
	return nil
}

// Namespace is what a namespace of a member says of itself.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
	// Missing says that it is not there; Terminating that it is being deleted.
	Missing, Terminating bool
}

// Claim is who wants to use a namespace of a member.
type Claim struct {
	// Hub is the namespace of the hub, Target the one of the member, Member the name of its MemberCluster.
	Hub, Target, Member string
	FleetID             string
	Spec                *v1alpha1.MemberClusterSpec
	Reserved            Reserved
}

// Named says why a namespace of the member may not be used, whatever is there; empty if its name does not forbid it.
func (c Claim) Named() string {
	if c.Target == "" {
		return fmt.Sprintf("no namespace of the member is for namespace %s of the hub: add it to spec.targetNamespaces.names of MemberCluster %s", c.Hub, c.Member)
	}
	if problems := validation.IsDNS1123Label(c.Target); len(problems) > 0 {
		return fmt.Sprintf("spec.targetNamespaces of MemberCluster %s makes %q of namespace %s, which is no name of a namespace (%s): name another in spec.targetNamespaces.names",
			c.Member, c.Target, c.Hub, problems[0])
	}
	if pattern, is := c.Reserved.Has(c.Target); is {
		return fmt.Sprintf("namespace %s of the member is reserved (%s): set spec.targetNamespaces of MemberCluster %s, so that another stands for namespace %s of the hub",
			c.Target, pattern, c.Member, c.Hub)
	}
	return ""
}

// Denied says why a namespace of the member may not be used by one of the hub; empty if it may. One that is there is used
// if MiniFleet has made it for this namespace of this fleet, or the member's side has labelled it for it, or the
// MemberCluster lists it.
func (c Claim) Denied(n Namespace) string {
	if why := c.Named(); why != "" {
		return why
	}
	listed := Listed(c.Spec, c.Hub, c.Target)
	of, fleet := n.Labels[v1alpha1.LabelHubNamespace], n.Annotations[v1alpha1.AnnotationFleetID]
	ours := n.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
	switch {
	case n.Missing:
		return ""
	case n.Terminating:
		return fmt.Sprintf("namespace %s of the member is being deleted: wait for the end of that", c.Target)
	case listed:
		return ""
	case ours && fleet != "" && fleet != c.FleetID:
		return fmt.Sprintf("namespace %s of the member was made for another fleet: %s", c.Target, c.elsewhere())
	case of == c.Hub, ours && of == "" && c.Target == c.Hub: // made before namespaces were labelled so
		return ""
	case of != "":
		return fmt.Sprintf("namespace %s of the member is for another namespace of the hub: %s", c.Target, c.elsewhere())
	default:
		return fmt.Sprintf("namespace %s of the member was not made by MiniFleet: if namespace %s of the hub may use it, its administrator says so with `kubectl label namespace %s %s=%s` there, or the hub's with spec.targetNamespaces.names of MemberCluster %s",
			c.Target, c.Hub, c.Target, v1alpha1.LabelHubNamespace, c.Hub, c.Member)
	}
}

func (c Claim) elsewhere() string {
	return fmt.Sprintf("set spec.targetNamespaces of MemberCluster %s, so that another stands for namespace %s of the hub", c.Member, c.Hub)
}

// Marks are the labels and annotations of a namespace that is made for one of the hub.
func (c Claim) Marks() (labels, annotations map[string]string) {
	return map[string]string{
			v1alpha1.LabelManagedBy:    v1alpha1.ManagedBy,
			v1alpha1.LabelHubNamespace: c.Hub,
			v1alpha1.LabelPodSecurity:  string(PodSecurity(c.Spec)),
		}, map[string]string{
			v1alpha1.AnnotationFleetID: c.FleetID,
		}
}
