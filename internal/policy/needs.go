package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Needs lists every field of a MiniCluster that takes a permission, in the order of the spec, maps sorted.
// The paths of the fields start at path, the spec's own. Nothing is changed, and nothing need be defaulted
// or valid.
func (r Rules) Needs(spec *fluxv1alpha2.MiniClusterSpec, path *field.Path) []Need {
	w := &walk{rules: r}
	w.containers(spec.Containers, path.Child("containers"))
	w.containers(spec.Services, path.Child("services"))
	flux := &spec.Flux.Container
	at := path.Child("flux", "container")
	w.resources(&flux.Resources, at.Child("resources"))
	w.securityContext(&flux.SecurityContext, at.Child("securityContext"))
	w.secret(spec.Flux.MungeSecret, path.Child("flux", "mungeSecret"))
	w.labels(spec.JobLabels, path.Child("jobLabels"))
	w.pod(&spec.Pod, path.Child("pod"))
	return w.needs
}

// walk collects needs.
type walk struct {
	rules Rules
	needs []Need
}

func (w *walk) need(p v1alpha1.Permission, at *field.Path, format string, args ...any) {
	w.needs = append(w.needs, Need{Permission: p, Field: at, Why: short(fmt.Sprintf(format, args...))})
}

// mostWhy is the most characters of a Why: the text in it is that of a MiniCluster, and may be long.
const mostWhy = 160

func short(s string) string {
	if r := []rune(s); len(r) > mostWhy {
		return string(r[:mostWhy-1]) + "…"
	}
	return s
}

func (w *walk) containers(containers []fluxv1alpha2.MiniClusterContainer, path *field.Path) {
	for i := range containers {
		c, at := &containers[i], path.Index(i)
		for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
			w.secret(c.Secrets[name].Name, at.Child("secrets").Key(name).Child("name"))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Volumes)) {
			volume := c.Volumes[name]
			w.volume(&volume, at.Child("volumes").Key(name))
		}
		w.resources(&c.Resources, at.Child("resources"))
		w.securityContext(&c.SecurityContext, at.Child("securityContext"))
	}
}

// volume checks every field that is set, whichever of them decides what kind of volume it is.
func (w *walk) volume(v *fluxv1alpha2.ContainerVolume, at *field.Path) {
	w.secret(v.SecretName, at.Child("secretName"))
	if v.HostPath == "" {
		return
	}
	w.need(v1alpha1.PermissionHostPath, at.Child("hostPath"), "mounts %s of the node", v.HostPath)
	if holdsDevices(v.HostPath) {
		w.need(v1alpha1.PermissionHostDevices, at.Child("hostPath"), "mounts devices of the node, %s", v.HostPath)
	}
}

// memoryBelowDev are directories below /dev that hold memory and no devices.
var memoryBelowDev = []string{"/dev/shm", "/dev/hugepages", "/dev/mqueue"}

func holdsDevices(hostPath string) bool {
	clean := path.Clean("/" + hostPath)
	if slices.ContainsFunc(memoryBelowDev, func(dir string) bool { return clean == dir || strings.HasPrefix(clean, dir+"/") }) {
		return false
	}
	return clean == "/" || clean == "/dev" || strings.HasPrefix(clean, "/dev/")
}

// memberToken is the Secret with MiniFleet's own token, where config/member puts it: on a member that
// confines MiniFleet to one namespace, it is in the very namespace that the pods are in. It is known before any member
// is asked. Under other names, Secrets that hold a token are told by their type, on the member, before a run begins.
const memberToken = "minifleet-member-token"

func (w *walk) secret(name string, at *field.Path) {
	if name == memberToken {
		w.need(v1alpha1.PermissionServiceAccountToken, at, "reads the token that MiniFleet itself uses on the member")
	}
}

func (w *walk) pod(p *fluxv1alpha2.PodSpec, at *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		w.annotation(key, p.Annotations[key], at.Child("annotations").Key(key))
	}
	w.labels(p.Labels, at.Child("labels"))
	if p.ServiceAccountName != "" && p.ServiceAccountName != "default" {
		w.need(v1alpha1.PermissionServiceAccount, at.Child("serviceAccountName"), "runs the pods as the service account %s", p.ServiceAccountName)
	}
	if p.AutomountServiceAccountToken {
		w.need(v1alpha1.PermissionServiceAccountToken, at.Child("automountServiceAccountToken"), "gives the pods a token for the member's API server")
	}
	for i := range p.Tolerations {
		w.toleration(&p.Tolerations[i], at.Child("tolerations").Index(i))
	}
	if p.HostIPC {
		w.need(v1alpha1.PermissionHostNamespaces, at.Child("hostIPC"), "shares the node's shared memory and semaphores with the pods")
	}
	if p.HostPID {
		w.need(v1alpha1.PermissionHostNamespaces, at.Child("hostPID"), "shows the pods all processes of the node")
	}
	w.podSecurityContext(&p.SecurityContext, at.Child("securityContext"))
}
