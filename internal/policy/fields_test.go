package policy_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/policy"
)

// takes are the fields of a MiniCluster that can take a permission, with these values or those; those of containers,
// which services and the container of Flux share, begin with "container".
var takes = []string{
	"container.resources", "container.secrets.name", "container.securityContext",
	"container.volumes.hostPath", "container.volumes.secretName",
	"flux.container.resources", "flux.container.securityContext", "flux.mungeSecret", "jobLabels",
	"pod.annotations", "pod.labels", "pod.serviceAccountName", "pod.automountServiceAccountToken", "pod.tolerations.key",
	"pod.hostIPC", "pod.hostPID", "pod.securityContext",
}

// ordinary are all the others, with the reason why they take none.
var ordinary = map[string]string{
	// What runs in a container runs there, confined by its security context; it is what MiniClusters are for.
	"container.name": inside, "container.image": inside, "container.workingDir": inside, "container.command": inside,
	"container.environment": inside, "container.launcher": inside, "container.batch": inside, "container.batchRaw": inside,
	"container.logs": inside, "container.runFlux": inside, "container.noWrapEntrypoint": inside,
	"container.lifeCycle.postStartExec": inside, "container.lifeCycle.preStopExec": inside,
	"container.commands.prefix": inside, "container.commands.script": inside, "container.commands.init": inside,
	"container.commands.pre": inside, "container.commands.post": inside, "container.commands.workerPre": inside,
	"container.commands.brokerPre": inside, "container.commands.servicePre": inside,
	"interactive": inside, "logging.quiet": inside, "logging.strict": inside, "logging.debug": inside, "logging.zeromq": inside,
	"logging.timed": inside, "archive.path": inside, "shareProcessNamespace": "stays in the pod",
	"flux.container.disable": inside, "flux.container.name": inside, "flux.container.workingDir": inside, "flux.container.pythonPath": inside,
	"flux.container.image": inside, "flux.container.mountPath": inside, "flux.submitCommand": inside, "flux.wrap": inside,
	"flux.connectTimeout": inside, "flux.optionFlags": inside, "flux.disableSocket": inside, "flux.topology": inside,
	"flux.noWaitSocket": inside, "flux.completeWorkers": inside, "flux.logLevel": inside, "flux.curveCert": inside,
	"flux.scheduler.simple": inside, "flux.scheduler.queuePolicy": inside, "flux.brokerConfig": inside, "flux.environment": inside,

	"container.imagePullSecret":      pulls,
	"container.pullAlways":           pulls,
	"container.imagePullPolicy":      pulls,
	"flux.container.imagePullSecret": pulls,
	"flux.container.pullAlways":      pulls,

	"container.ports":              "are ports of the pods, and none of the node",
	"flux.minimalService":          network,
	"network.headlessName":         network,
	"network.disableAffinity":      scheduled,
	"flux.bursting.hostlist":       network,
	"flux.bursting.clusters.name":  network,
	"flux.bursting.clusters.size":  network,
	"flux.bursting.leadBroker":     network,
	"pod.dnsPolicy":                "chooses between resolvers that pods may ask anyway",
	"container.secrets.key":        "is judged by the Secret",
	"container.volumes.path":       "is a path in the container",
	"container.volumes.readOnly":   "takes away",
	"container.volumes.claimName":  "is of the namespace, and bound to what its administrator offers",
	"container.volumes.emptyDir":   "is the pod's own",
	"container.volumes.items":      "are keys of what is mounted",
	"container.volumes.csiDriver":  "is let do so by the member's administrator, and by Pod Security's strictest level",
	"container.volumes.csiOptions": "are judged by the driver",

	"container.volumes.configMapName":     "is data of the namespace",
	"container.volumes.emptyDirMedium":    "counts as the container's memory",
	"container.volumes.emptyDirSizeLimit": "takes away",

	"flux.arch":              scheduled,
	"pod.nodeSelector":       scheduled,
	"pod.nodeAffinity":       scheduled,
	"pod.schedulerName":      "names a scheduler that the member's administrator runs; taints hold for all of them",
	"pod.runtimeClassName":   "names a class that the member's administrator has made",
	"pod.restartPolicy":      "concerns the pods alone",
	"pod.resources":          "is the pods' overhead, which adds no device",
	"pod.tolerations.effect": "is judged by the key", "pod.tolerations.operator": "is judged by the key", "pod.tolerations.value": "is judged by the key",

	"cleanup": size, "size": size, "maxSize": size, "minSize": size, "backoffLimit": size, "tasks": size, "deadlineSeconds": size,
}

const (
	inside    = "stays in the containers"
	pulls     = "is read by the node to pull an image, and mounted nowhere"
	network   = "is of the pods' own network"
	scheduled = "chooses among nodes that are open to everybody"
	size      = "says how much of it there is, and for how long"
)

// leavesOf are the fields below a type, without the numbers and keys of lists and maps. Types of Kubernetes that other
// tests are about are leaves.
func leavesOf(typ reflect.Type, path string) []string {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return leavesOf(typ.Elem(), path)
	case reflect.Struct:
	default:
		return []string{path}
	}
	switch typ {
	case reflect.TypeFor[fluxv1alpha2.MiniClusterContainer]():
		path = "container"
	case reflect.TypeFor[corev1.SecurityContext](), reflect.TypeFor[corev1.PodSecurityContext](),
		reflect.TypeFor[corev1.ResourceRequirements](), reflect.TypeFor[fluxv1alpha2.FluxBroker]():
		return []string{path}
	}
	if !strings.HasSuffix(typ.PkgPath(), "api/flux/v1alpha2") {
		return []string{path}
	}
	var out []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, leavesOf(f.Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return out
}

var (
	elements       = regexp.MustCompile(`\[[^]]*\]`)
	containersPath = regexp.MustCompile(`^(containers|services)\.`)
)

// fieldOf is the field that the path of a leaf is in.
func fieldOf(path string) string {
	path = elements.ReplaceAllString(strings.TrimPrefix(path, "spec."), "")
	path = containersPath.ReplaceAllString(path, "container.")
	path = strings.Replace(path, "csiDriverAttributes", "csiOptions", 1)
	for _, whole := range []string{".securityContext", ".resources", ".leadBroker"} {
		if before, _, found := strings.Cut(path, whole); found {
			return before + whole
		}
	}
	return path
}

// TestEveryFieldIsJudged fails when MiniClusters get a new field: then decide whether it takes a permission. What is said
// to take one does with some value, and what is ordinary with none.
func TestEveryFieldIsJudged(t *testing.T) {
	var all []string
	for _, leaf := range leavesOf(reflect.TypeFor[fluxv1alpha2.MiniClusterSpec](), "") {
		all = append(all, fieldOf(leaf))
	}
	for _, f := range all {
		if slices.Contains(takes, f) == (ordinary[f] != "") {
			t.Errorf("%s: either it takes a permission, or it is ordinary for a reason", f)
		}
	}
	for f := range ordinary {
		if !slices.Contains(all, f) {
			t.Errorf("there is no field %s", f)
		}
	}
	found := map[string]bool{"container.resources": true, "flux.container.resources": true} // TestNeeds
	eachLeaf(full, func(path string, s *spec) {
		f := fieldOf(path)
		needs := (policy.Rules{}).Needs(s, field.NewPath("spec"))
		found[f] = found[f] || len(needs) > 0
		if len(needs) > 0 && !slices.Contains(takes, f) {
			t.Errorf("%s is said to be ordinary, and takes %v", path, list(needs))
		}
	})
	for _, f := range takes {
		if !found[f] {
			t.Errorf("%s takes a permission with no value that was tried", f)
		}
	}
}

func TestAnnotationsThatAreOrdinary(t *testing.T) {
	cases := map[string]struct {
		allowed []string
		key     string
		takes   string
	}{
		"by default":                                 {nil, "prometheus.io/scrape", ""},
		"not by default":                             {nil, "prometheus.io.example.org/scrape", "PodAnnotations"},
		"the user's own":                             {nil, "purpose", ""},
		"a whole key":                                {[]string{"example.org/a"}, "example.org/a", ""},
		"a whole key is no beginning":                {[]string{"example.org/a"}, "example.org/ab", "PodAnnotations"},
		"a beginning":                                {[]string{"example.org/*"}, "example.org/a", ""},
		"a beginning is no end":                      {[]string{"example.org/*"}, "other.example.org/a", "PodAnnotations"},
		"what is set replaces the default":           {[]string{"example.org/*"}, "prometheus.io/scrape", "PodAnnotations"},
		"none":                                       {[]string{}, "prometheus.io/scrape", "PodAnnotations"},
		"all, but what is known to be dangerous":     {[]string{"*"}, "example.org/a", ""},
		"what is dangerous is so whatever is set":    {[]string{"*"}, "io.kubernetes.cri-o.Devices", "HostDevices"},
		"CRI-O's new names, devices":                 {[]string{"*"}, "devices.crio.io/container", "HostDevices"},
		"CRI-O's new names, shared memory":           {nil, "shm-size.crio.io", ""},
		"CRI-O's new names":                          {[]string{"*"}, "unified-cgroup.crio.io/container", "Privileged"},
		"CRI-O's new names, filters of system calls": {[]string{"*"}, "seccomp-profile.crio.io/POD", "Privileged"},
		"a role in the cloud":                        {nil, "iam.amazonaws.com/role", "ServiceAccount"},
		"a plugin of a runtime that nobody knows":    {nil, "hooks.nri.example.org", "PodAnnotations"},
		"a domain in reverse that nobody knows":      {nil, "org.example.runtime", "PodAnnotations"},
		"networks":                                   {nil, "k8s.v1.cni.cncf.io/networks", "PodAnnotations"},
		"a proxy beside the pod":                     {nil, "sidecar.istio.io/proxyImage", "PodAnnotations"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			needs := policy.Rules{PodAnnotations: c.allowed}.Needs(annotated(c.key, "x"), field.NewPath("spec"))
			want := ""
			if c.takes != "" {
				want = fmt.Sprintf("%s spec.pod.annotations[%s]", c.takes, c.key)
			}
			if got := strings.Join(list(needs), "; "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestLabelsThatProgramsActUpon(t *testing.T) {
	cases := map[string]struct {
		key, takes string
	}{
		"the user's":            {"app.kubernetes.io/name", ""},
		"a queue":               {"kueue.x-k8s.io/queue-name", ""},
		"a priority in a queue": {"kueue.x-k8s.io/priority-class", "PodAnnotations"},
		"a mesh":                {"sidecar.istio.io/inject", "PodAnnotations"},
		"a mesh's own domain":   {"istio.io/rev", "PodAnnotations"},
		"another domain":        {"notistio.io/rev", ""},
		"an identity":           {"azure.workload.identity/use", "ServiceAccount"},
		"MiniFleet's":           {"minifleet.dev/run", "PodAnnotations"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			value := map[string]string{c.key: "x"}
			for at, s := range map[string]*spec{"spec.jobLabels": {JobLabels: value}, "spec.pod.labels": pod(fluxv1alpha2.PodSpec{Labels: value})} {
				want := ""
				if c.takes != "" {
					want = fmt.Sprintf("%s %s[%s]", c.takes, at, c.key)
				}
				if got := strings.Join(list((policy.Rules{}).Needs(s, field.NewPath("spec"))), "; "); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				allowed := policy.Rules{PodAnnotations: []string{"*"}}.Needs(s, field.NewPath("spec"))
				if open := len(allowed) == 0; open != (c.takes != "ServiceAccount") {
					t.Errorf("where all annotations are ordinary: %v", list(allowed))
				}
			}
		})
	}
}

func TestTolerations(t *testing.T) {
	cases := map[string]struct {
		toleration fluxv1alpha2.Toleration
		takes      bool
	}{
		"a GPU's":                  {fluxv1alpha2.Toleration{Key: "nvidia.com/gpu", Operator: "Exists"}, false},
		"an administrator's":       {fluxv1alpha2.Toleration{Key: "reserved", Value: "assay", Effect: "NoExecute"}, false},
		"spot instances":           {fluxv1alpha2.Toleration{Key: "kubernetes.azure.com/scalesetpriority", Value: "spot"}, false},
		"everything":               {fluxv1alpha2.Toleration{Operator: "Exists"}, true},
		"everything of one effect": {fluxv1alpha2.Toleration{Operator: "Exists", Effect: "NoExecute"}, true},
		"the control plane":        {fluxv1alpha2.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: "Exists"}, true},
		"the control plane of old": {fluxv1alpha2.Toleration{Key: "node-role.kubernetes.io/master"}, true},
		"a cordoned node":          {fluxv1alpha2.Toleration{Key: "node.kubernetes.io/unschedulable"}, true},
		"a lost node":              {fluxv1alpha2.Toleration{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"}, true},
		"a node not set up":        {fluxv1alpha2.Toleration{Key: "node.cloudprovider.kubernetes.io/uninitialized"}, true},
		"a node for add-ons":       {fluxv1alpha2.Toleration{Key: "CriticalAddonsOnly"}, true},
		"a node that is removed":   {fluxv1alpha2.Toleration{Key: "karpenter.sh/disrupted"}, true},
		"something like it":        {fluxv1alpha2.Toleration{Key: "example.org/node.kubernetes.io"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := pod(fluxv1alpha2.PodSpec{Tolerations: []fluxv1alpha2.Toleration{c.toleration}})
			got := list((policy.Rules{}).Needs(s, field.NewPath("spec")))
			want := c.takes && len(got) == 1 && strings.HasPrefix(got[0], "Tolerations spec.pod.tolerations[0]")
			if !want && (c.takes || len(got) > 0) {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestCheckPodAnnotations(t *testing.T) {
	if err := policy.CheckPodAnnotations(append(policy.DefaultPodAnnotations(), "*", "example.org/a", "run.oci.*")); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "*.example.org/a", "a b", "a**"} {
		if err := policy.CheckPodAnnotations([]string{"example.org/a", wrong}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
