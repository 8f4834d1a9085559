package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// DefaultPodAnnotations are the annotations of pods that take no permission unless a hub says otherwise: what they ask
// for concerns the pods that have them, and costs nobody else more than a node that stays.
//
// Attachments to further networks are not among them, though people who use them are: which networks a pod may be in
// is for the administrator of a member to say, and policies of the ordinary network do not hold there.
func DefaultPodAnnotations() []string {
	return []string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict",
		"gke-gcsfuse/*",
		"karpenter.sh/do-not-disrupt",
		"kubectl.kubernetes.io/default-container",
		"kubectl.kubernetes.io/default-logs-container",
		"kueue.x-k8s.io/podset-preferred-topology",
		"kueue.x-k8s.io/podset-required-topology",
		"kueue.x-k8s.io/podset-unconstrained-topology",
		"lab.minifleet.dev/*", // what the pods of a cluster without containers do, in tests and the demo
		"prometheus.io/*",
	}
}

// CheckPodAnnotations says what is wrong with a list for Rules.
func CheckPodAnnotations(patterns []string) error {
	for _, p := range patterns {
		if body := strings.TrimSuffix(p, "*"); p == "" || strings.ContainsAny(body, "* \t\n") {
			return fmt.Errorf("%q is neither the key of an annotation nor the beginning of one with * behind it", p)
		}
	}
	return nil
}

// annotations that Kubernetes, or a container runtime that is set up for it, reads as settings of security, and those
// that give pods somebody's identity. The first whose prefix fits decides.
var annotations = []struct {
	prefix     string
	permission v1alpha1.Permission // empty: ordinary
	why        string
	// harmless says which values ask for nothing; nil: none.
	harmless func(value string) bool
}{
	{"container.apparmor.security.beta.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts AppArmor's confinement", confinedByAppArmor},
	{"container.seccomp.security.alpha.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts the filter of system calls", confinedBySeccomp},
	{"seccomp.security.alpha.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts the filter of system calls", confinedBySeccomp},
	{"seccomp-profile.kubernetes.cri-o.io", v1alpha1.PermissionPrivileged, "replaces the filter of system calls", nil},

	{"cdi.k8s.io/", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"cdi-devices.nri.", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"devices.nri.", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"net-devices.nri.", v1alpha1.PermissionHostDevices, "adds network devices of the node", nil},
	{"network-devices.nri.", v1alpha1.PermissionHostDevices, "adds network devices of the node", nil},
	{"devices.noderesource.dev", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"mounts.nri.", v1alpha1.PermissionHostPath, "mounts paths of the node", nil},

	{"io.kubernetes.cri-o.Devices", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"devices.crio.io", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"io.kubernetes.cri-o.ShmSize", "", "", nil},
	{"shm-size.crio.io", "", "", nil},
	{"io.kubernetes.cri-o.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, CRI-O", nil},
	{"dev.gvisor.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, gVisor", nil},
	{"io.containers.trace-syscall", v1alpha1.PermissionPrivileged, "starts a hook on the node", nil},
	{"io.katacontainers.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, Kata Containers", nil},
	{"org.systemd.property.", v1alpha1.PermissionPrivileged, "is a setting of the node's systemd", nil},
	{"run.oci.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, crun", nil},

	{"iam.amazonaws.com/", v1alpha1.PermissionServiceAccount, "gives the pods an identity in the cloud", nil},
}

// crio is the domain of the settings of CRI-O under the names that they have now, such as userns-mode.crio.io/NAME.
const crio = ".crio.io"

func (w *walk) annotation(key, value string, at *field.Path) {
	for _, a := range annotations {
		if !strings.HasPrefix(key, a.prefix) {
			continue
		}
		if a.permission != "" && (a.harmless == nil || !a.harmless(value)) {
			w.need(a.permission, at, "%s (%q)", a.why, value)
		}
		return
	}
	domain, _, _ := strings.Cut(key, "/")
	switch {
	case strings.HasSuffix(domain, crio):
		w.need(v1alpha1.PermissionPrivileged, at, "is a setting of the node's runtime, CRI-O (%q)", value)
	case !isPrivateKey(key) && !w.rules.ordinary(key):
		w.need(v1alpha1.PermissionPodAnnotations, at, "is for whatever program of the member reads it (%q)", value)
	}
}

// isPrivateKey says whether a key is the user's own: programs that act upon keys have to give them a prefix, which is a
// domain, and runtimes whose keys have none begin them with the domain in reverse.
func isPrivateKey(key string) bool { return !strings.ContainsAny(key, "/.") }

func (r Rules) ordinary(key string) bool {
	patterns := r.PodAnnotations
	if patterns == nil {
		patterns = DefaultPodAnnotations()
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, open := strings.CutSuffix(p, "*")
		return key == p || open && strings.HasPrefix(key, prefix)
	})
}

// labels that programs of a member act upon, by the whole key, or by the domain before the slash and those below it.
// What else pods are labelled with is the user's: labels are there to be selected by.
var labels = []struct {
	key, domain string
	permission  v1alpha1.Permission
	why         string
}{
	{domain: "azure.workload.identity", permission: v1alpha1.PermissionServiceAccount, why: "gives the pods an identity in the cloud"},
	{key: "kueue.x-k8s.io/priority-class", permission: v1alpha1.PermissionPodAnnotations, why: "has Kueue stop the work of others"},
	{domain: "istio.io", permission: v1alpha1.PermissionPodAnnotations, why: "says whether and how the pods take part in the service mesh"},
	{domain: "linkerd.io", permission: v1alpha1.PermissionPodAnnotations, why: "says whether and how the pods take part in the service mesh"},
	{domain: "minifleet.dev", permission: v1alpha1.PermissionPodAnnotations, why: "is one of MiniFleet's own"},
}

func (w *walk) labels(all map[string]string, at *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		domain, _, _ := strings.Cut(key, "/")
		for _, l := range labels {
			if key != l.key && (l.domain == "" || domain != l.domain && !strings.HasSuffix(domain, "."+l.domain)) {
				continue
			}
			if l.permission != v1alpha1.PermissionPodAnnotations || !w.rules.ordinary(key) {
				w.need(l.permission, at.Key(key), "%s (%q)", l.why, all[key])
			}
			break
		}
	}
}

func confinedByAppArmor(profile string) bool {
	return profile == "" || profile == "runtime/default" || strings.HasPrefix(profile, "localhost/")
}

func confinedBySeccomp(profile string) bool {
	return profile == "runtime/default" || profile == "docker/default" || strings.HasPrefix(profile, "localhost/")
}
