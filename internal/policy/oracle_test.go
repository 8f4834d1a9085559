package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psapi "k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/render"
)

// texts are what every text of a MiniCluster is set to in turn: what a name, a path, a profile, a
// capability or a user may be that Pod Security minds.
var texts = []string{
	"Unconfined", "unconfined", "Unmasked", "SYS_ADMIN", "ALL", "spc_t", "kernel.shmmax", "/dev", "/data",
	"ContainerAdministrator", "127.0.0.1", "minifleet-member-token", "node-role.kubernetes.io/master",
}

// keys are what the keys of every map of texts are set to in turn.
var keys = []string{
	"container.apparmor.security.beta.kubernetes.io/flux-view", "seccomp.security.alpha.kubernetes.io/pod",
	"container.seccomp.security.alpha.kubernetes.io/flux-view", "sidecar.istio.io/inject", "key",
}

// baseline are the permissions without which a MiniCluster passes the Pod Security level "baseline".
var baseline = []v1alpha1.Permission{v1alpha1.PermissionHostPath, v1alpha1.PermissionHostNamespaces, v1alpha1.PermissionPrivileged}

// TestBaseline sets every leaf of a MiniCluster, one at a time, to whatever may be dangerous, and asks
// Kubernetes' own code about the pods that come of it: what the Pod Security level "baseline" forbids
// takes a permission, at the very field that was set.
func TestBaseline(t *testing.T) {
	evaluator, err := psa.NewEvaluator(psa.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cert := certificate(t)
	if denied := forbidden(t, evaluator, full(), cert); denied != "" {
		t.Fatalf("before anything is set: %s", denied)
	}
	if needs := (policy.Rules{}).Needs(full(), field.NewPath("spec")); len(needs) > 0 {
		t.Fatalf("before anything is set: %v", list(needs))
	}
	tried, found := 0, map[string]bool{}
	visit := func(path string, s *spec) {
		tried++
		denied := forbidden(t, evaluator, s, cert)
		if denied == "" {
			return
		}
		for _, reason := range strings.Split(denied, ", ") {
			found[reason] = true
		}
		needs := (policy.Rules{}).Needs(s, field.NewPath("spec"))
		if !slices.ContainsFunc(needs, func(n policy.Need) bool {
			return sameField(n.Field.String(), path) && slices.Contains(baseline, n.Permission)
		}) {
			t.Errorf("%s: Pod Security forbids it (%s), and what takes a permission is %v", path, denied, list(needs))
		}
	}
	eachLeaf(full, visit)
	if tried < 500 {
		t.Errorf("only %d settings were tried", tried)
	}
	// The test is worth something only if each check of the level was provoked, but for those of fields
	// that a MiniCluster does not have, and of what makes it invalid (procMount, hostProcess).
	for _, reason := range []string{
		"hostPath volumes", "host namespaces", "privileged", "non-default capabilities", "seccompProfile",
		"forbidden AppArmor profile", "seLinuxOptions", "forbidden sysctls",
	} {
		if !found[reason] {
			t.Errorf("nothing provoked %q; what was: %v", reason, found)
		}
	}
}

// TestRestricted holds what docs/policy.md says of the strictest level: nothing that MiniFleet adds to a pod
// is in its way.
func TestRestricted(t *testing.T) {
	evaluator, err := psa.NewEvaluator(psa.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := full()
	restrained := corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	s.Pod.SecurityContext = corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	s.Flux.Container.SecurityContext = restrained
	for _, containers := range [][]fluxv1alpha2.MiniClusterContainer{s.Containers, s.Services} {
		for i := range containers {
			containers[i].SecurityContext = restrained
		}
	}
	bundle, err := render.Render(render.Input{Name: "mini", Namespace: "test", Spec: *s, CurveCert: certificate(t)})
	if err != nil {
		t.Fatal(err)
	}
	level := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	for _, object := range bundle.Objects() {
		if meta, pod := podOf(object); pod != nil {
			for _, r := range evaluator.EvaluatePod(level, meta, pod) {
				if !r.Allowed {
					t.Errorf("%s: %s", r.ForbiddenReason, r.ForbiddenDetail)
				}
			}
		}
	}
}

// sameField says whether a need is about the leaf that was set: at it, above it, or below it.
func sameField(need, leaf string) bool {
	return strings.HasPrefix(need, leaf) || strings.HasPrefix(leaf, need)
}

// TestEveryLeafOfASecurityContextIsJudged fails when Kubernetes gives security contexts a new field: then
// decide whether it takes a permission.
func TestEveryLeafOfASecurityContextIsJudged(t *testing.T) {
	ordinary := map[string]string{
		"allowPrivilegeEscalation":         "true is what unset means",
		"capabilities.drop":                "takes away",
		"readOnlyRootFilesystem":           "concerns the container alone",
		"runAsNonRoot":                     "takes away, and false is what unset means",
		"seccompProfile.localhostProfile":  "is a profile that the node's administrator has put there",
		"appArmorProfile.localhostProfile": "is a profile that the node's administrator has put there",
		"seLinuxOptions.level":             "tells pods apart within a type",
		"supplementalGroupsPolicy":         "concerns the groups of the image's user",
		"fsGroupChangePolicy":              "says when volumes are relabelled",
		"seLinuxChangePolicy":              "says how volumes are relabelled",
		"sysctls[0].value":                 "is judged by the sysctl's name",
	}
	judged := func(s *spec) bool { return len((policy.Rules{}).Needs(s, field.NewPath("spec"))) > 0 }
	takes, all := map[string]bool{}, map[string]bool{}
	for _, at := range []string{"spec.containers[0].securityContext.", "spec.flux.container.securityContext.", "spec.services[0].securityContext.", "spec.pod.securityContext."} {
		eachLeaf(full, func(path string, s *spec) {
			leaf, ok := strings.CutPrefix(path, at)
			if !ok {
				return
			}
			all[leaf] = true
			takes[leaf] = takes[leaf] || judged(s)
		})
	}
	for leaf := range all {
		if reason := ordinary[leaf]; (reason == "") != takes[leaf] {
			t.Errorf("%s: takes a permission: %v; is ordinary because it %q", leaf, takes[leaf], reason)
		}
	}
	for leaf := range ordinary {
		if !all[leaf] {
			t.Errorf("there is no field %s", leaf)
		}
	}
}

// full is a MiniCluster with a container of each kind, each with a volume, that needs nothing.
func full() *spec {
	container := func(name string) fluxv1alpha2.MiniClusterContainer {
		return fluxv1alpha2.MiniClusterContainer{Name: name, Command: "true",
			Volumes: map[string]fluxv1alpha2.ContainerVolume{"volume-" + name: {Path: "/volume-" + name}},
			Secrets: map[string]fluxv1alpha2.Secret{"A": {Name: "secret", Key: "key"}}}
	}
	runner := container("runner")
	runner.RunFlux = true
	s := &spec{
		Containers: []fluxv1alpha2.MiniClusterContainer{runner, container("side")},
		Services:   []fluxv1alpha2.MiniClusterContainer{container("service")},
	}
	// Of these, one part says something only beside another.
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	appArmor := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	for _, c := range []*corev1.SecurityContext{&s.Containers[0].SecurityContext, &s.Containers[1].SecurityContext, &s.Services[0].SecurityContext, &s.Flux.Container.SecurityContext} {
		c.SeccompProfile, c.AppArmorProfile = seccomp.DeepCopy(), appArmor.DeepCopy()
	}
	s.Pod.SecurityContext = corev1.PodSecurityContext{
		SeccompProfile: seccomp, AppArmorProfile: appArmor, Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_rmem", Value: "4096"}},
	}
	s.Pod.Tolerations = []fluxv1alpha2.Toleration{{Key: "nvidia.com/gpu", Operator: "Exists"}}
	s.Default()
	return s
}

func certificate(t *testing.T) []byte {
	t.Helper()
	cert, err := curve.New(strings.NewReader(strings.Repeat("test", 64)))
	if err != nil {
		t.Fatal(err)
	}
	return cert.Encode()
}

// forbidden is why the level "baseline" forbids a pod of the MiniCluster; empty if it does not, or if there
// would be none, since what renders it or the API server refuses the MiniCluster.
func forbidden(t *testing.T, evaluator psa.Evaluator, s *spec, cert []byte) string {
	t.Helper()
	bundle, err := render.Render(render.Input{Name: "mini", Namespace: "test", Spec: *s, CurveCert: cert})
	if err != nil {
		return ""
	}
	var reasons []string
	for _, object := range bundle.Objects() {
		meta, pod := podOf(object)
		if pod == nil {
			continue
		}
		for _, version := range []psapi.Version{psapi.LatestVersion(), psapi.MajorMinorVersion(1, 18)} {
			level := psapi.LevelVersion{Level: psapi.LevelBaseline, Version: version}
			for _, r := range evaluator.EvaluatePod(level, meta, pod) {
				// Old versions know fewer sysctls that are safe; a node of such a version refuses the others itself.
				if !r.Allowed && (version == psapi.LatestVersion() || r.ForbiddenReason == "seccompProfile") {
					reasons = append(reasons, r.ForbiddenReason)
				}
			}
		}
	}
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), ", ")
}

func podOf(object render.Object) (*metav1.ObjectMeta, *corev1.PodSpec) {
	switch o := object.(type) {
	case *batchv1.Job:
		return &o.Spec.Template.ObjectMeta, &o.Spec.Template.Spec
	case *corev1.Pod:
		return &o.ObjectMeta, &o.Spec
	default:
		return nil, nil
	}
}

// eachLeaf calls visit with a new MiniCluster for every leaf and every dangerous value of it. Paths name
// fields as a manifest does; an element of a list of plain values or of structs that is added has none.
func eachLeaf(fresh func() *spec, visit func(path string, s *spec)) {
	for leaf := 0; ; leaf++ {
		for value := 0; ; value++ {
			s := fresh()
			w := &setter{leaf: leaf, value: value}
			w.walk(reflect.ValueOf(s).Elem(), "spec")
			if w.path == "" {
				if value == 0 {
					return // there are no more leaves
				}
				break // there are no more values for this leaf
			}
			visit(w.path, s)
		}
	}
}

// setter sets the leaf with a number to the value with a number, on a walk through all leaves.
type setter struct {
	leaf, value int
	count       int
	path        string // of the leaf, once it is set
}

// choose says whether v is the leaf, and if there is such a value of it.
func (w *setter) choose(path string, values int) bool {
	w.count++
	if w.count-1 != w.leaf || w.value >= values {
		return false
	}
	w.path = path
	return true
}

func (w *setter) walk(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.CanInterface() && v.Type().PkgPath() == "k8s.io/apimachinery/pkg/api/resource" {
			return // judged by the resource's name, in TestNeeds
		}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			w.walk(v.Field(i), path+"."+name)
		}
	case reflect.Pointer:
		// A field behind a pointer is set where there is something.
		target := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			target = v
		}
		before := w.path
		w.walk(target.Elem(), path)
		if w.path != before {
			v.Set(target)
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
		if v.Len() > 0 {
			return
		}
		element := reflect.New(v.Type().Elem()).Elem()
		before := w.path
		w.walk(element, path)
		if w.path != before {
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		w.walkMap(v, path)
	case reflect.Bool:
		if w.choose(path, 2) {
			v.SetBool(w.value == 0)
		}
	case reflect.Int32, reflect.Int64:
		if w.choose(path, 2) {
			v.SetInt(int64(w.value))
		}
	case reflect.String:
		if w.choose(path, len(texts)) {
			v.SetString(texts[w.value])
		}
	default:
		panic(path + " is a " + v.Kind().String())
	}
}

func (w *setter) walkMap(v reflect.Value, path string) {
	switch v.Type().Elem().Kind() {
	case reflect.String:
		if w.choose(path, len(keys)*len(texts)) {
			v.Set(reflect.ValueOf(map[string]string{keys[w.value%len(keys)]: texts[w.value/len(keys)]}))
		}
	case reflect.Struct:
		if v.Type().Elem().PkgPath() == "k8s.io/apimachinery/pkg/api/resource" {
			return // judged by the resource's name, in TestNeeds
		}
		for _, key := range v.MapKeys() {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(v.MapIndex(key))
			before := w.path
			w.walk(element, fmt.Sprintf("%s[%s]", path, key))
			if w.path != before {
				v.SetMapIndex(key, element)
			}
		}
	default: // pod.nodeAffinity, a map of lists
	}
}
