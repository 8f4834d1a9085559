package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Values that each field of a MiniCluster is given in turn, by its kind.
var (
	nastyTexts = []string{
		"", "-a", "a-", "1a", "A", "a b", " a", "a.b", "..", "../a", "a/b", "a/b/c", "/", "/a", "/a/../b", "a:b", "/flux_operator", "/mnt/flux/", "a,b", "a=b",
		"$(A)", "\u202e", "a\nb", "a\x00b", "\xff", "-1", "lammps", "flux-view", "side",
		strings.Repeat("a", 64), strings.Repeat("a", 254), "/" + strings.Repeat("a", 5000),
	}
	// nastyWords are for fields that know only some words, besides.
	nastyWords = []string{"None", "Always", "Never", "Exists", "Gt", "Localhost", "Unconfined", "NoExecute", "1e99"}
	// nastyKeys are for maps, besides.
	nastyKeys       = []string{"nvidia.com/gpu", "requests.cpu", "hugepages-2Mi", "kubernetes.io/x", "controller-uid", "job-name", "app"}
	nastyNumbers    = []int64{-1 << 31, -1, 0, 1, 3, 80, 65536, 100_001, 1<<31 - 1, 1<<63 - 1}
	nastyQuantities = []string{"-1", "0", "3", "500m", "1n", "4Mi", "1e40"}
)

// isWord says whether a field knows only some words.
func isWord(path string) bool {
	return slices.ContainsFunc([]string{"olicy", ".operator", ".effect", ".type", ".procMount", ".emptyDirMedium", ".emptyDirSizeLimit"},
		func(end string) bool { return strings.HasSuffix(path, end) })
}

// everything is a MiniCluster with a value in each field that can have one beside the others.
func everything() *fluxv1alpha2.MiniClusterSpec {
	security := corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
		Privileged:   ptr.To(false), RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), RunAsNonRoot: ptr.To(true),
		SELinuxOptions:         &corev1.SELinuxOptions{Level: "s0"},
		ReadOnlyRootFilesystem: ptr.To(false), AllowPrivilegeEscalation: ptr.To(true), ProcMount: ptr.To(corev1.DefaultProcMount),
		SeccompProfile:  &corev1.SeccompProfile{Type: "Localhost", LocalhostProfile: ptr.To("a")},
		AppArmorProfile: &corev1.AppArmorProfile{Type: "Localhost", LocalhostProfile: ptr.To("a")},
	}
	list := func() corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse("2"), "hugepages-2Mi": resource.MustParse("2Mi"), "nvidia.com/gpu": resource.MustParse("2")}
	}
	// What is checked in the same way for all containers has one of them only.
	runner := fluxv1alpha2.MiniClusterContainer{
		Name: "runner", Image: "example.org/app", RunFlux: true, Command: "true", WorkingDir: "/work", Logs: "/logs", ImagePullSecret: "pull", ImagePullPolicy: "Never",
		Ports:       []int32{80},
		Environment: map[string]string{"A": "a"},
		Secrets:     map[string]fluxv1alpha2.Secret{"B": {Name: "b", Key: "b"}},
		Volumes: map[string]fluxv1alpha2.ContainerVolume{
			"config": {Path: "/config", ConfigMapName: "config", Items: map[string]string{"a": "b"}},
			"claim":  {Path: "/claim", ClaimName: "claim", ReadOnly: true},
			"csi":    {Path: "/csi", CSIDriver: "csi.example.org", CSIDriverAttributes: map[string]string{"a": "b"}},
			"empty":  {Path: "/empty", EmptyDir: true, EmptyDirMedium: "memory", EmptyDirSizeLimit: "1Gi"},
		},
		LifeCycle: fluxv1alpha2.LifeCycle{PostStartExec: "true", PreStopExec: "true"},
		Resources: corev1.ResourceRequirements{Requests: list(), Limits: list()}, SecurityContext: security,
		Commands: fluxv1alpha2.Commands{Prefix: "env", Init: "true", Pre: "true", Post: "true", WorkerPre: "true", BrokerPre: "true"},
	}
	side := fluxv1alpha2.MiniClusterContainer{
		Name: "side", Image: "example.org/side", Ports: []int32{80},
		Volumes: map[string]fluxv1alpha2.ContainerVolume{"host": {Path: "/host", HostPath: "/host"}},
	}
	service := fluxv1alpha2.MiniClusterContainer{
		Name: "db", Image: "example.org/db", Ports: []int32{80},
		Volumes: map[string]fluxv1alpha2.ContainerVolume{"secret": {Path: "/secret", SecretName: "secret"}},
	}
	s := &fluxv1alpha2.MiniClusterSpec{
		Size: 4, MaxSize: 8, MinSize: 2, ShareProcessNamespace: true,
		Containers: []fluxv1alpha2.MiniClusterContainer{runner, side},
		Services:   []fluxv1alpha2.MiniClusterContainer{service},
		JobLabels:  map[string]string{"a": "b"},
		Archive:    fluxv1alpha2.MiniClusterArchive{Path: "/archive"},
	}
	s.Network.HeadlessName = "net"
	s.Flux = fluxv1alpha2.FluxSpec{
		Arch: "arm", SubmitCommand: "flux submit", Wrap: "time", OptionFlags: "-o a", Topology: "kary:2", MungeSecret: "munge", Environment: map[string]string{"A": "a"},
		CurveCert: string(testCertificate()), BrokerConfig: "[a]\n",
		Bursting: fluxv1alpha2.Bursting{
			LeadBroker: fluxv1alpha2.FluxBroker{Address: "192.0.2.1", Name: "lead", Size: 2, Port: 8050},
			Clusters:   []fluxv1alpha2.BurstedCluster{{Name: "far", Size: 2}},
		},
		Container: fluxv1alpha2.FluxContainer{
			WorkingDir: "/work", PythonPath: "/python", ImagePullSecret: "pull",
			Resources:       corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			SecurityContext: corev1.SecurityContext{RunAsUser: ptr.To[int64](1000)},
		},
	}
	s.Pod = fluxv1alpha2.PodSpec{
		Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"a": "b"}, RestartPolicy: "Never", ServiceAccountName: "default",
		RuntimeClassName: "kata", SchedulerName: "fluence", NodeSelector: map[string]string{"a": "b"}, NodeAffinity: map[string][]string{"a": {"b"}},
		Tolerations: []fluxv1alpha2.Toleration{{Key: "a", Operator: "Equal", Value: "b", Effect: "NoSchedule"}}, DNSPolicy: "Default", Resources: list(),
		SecurityContext: corev1.PodSecurityContext{
			RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000), SupplementalGroups: []int64{1000},
			RunAsNonRoot: ptr.To(true), SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"},
			Sysctls:             []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "0"}},
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeAlways), SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyMerge),
			SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive),
			SeccompProfile:      &corev1.SeccompProfile{Type: "RuntimeDefault"}, AppArmorProfile: &corev1.AppArmorProfile{Type: "RuntimeDefault"},
		},
	}
	s.Default()
	return s
}

func placesOf(spec *fluxv1alpha2.MiniClusterSpec) []place {
	return places(reflect.ValueOf(spec).Elem(), "spec")
}

func testCertificate() []byte {
	cert, err := curve.New(strings.NewReader(strings.Repeat("k", curve.KeySize)))
	if err != nil {
		panic(err)
	}
	return cert.Encode()
}

// place is a field, or the keys of a map, and what it can be changed to.
type place struct {
	path  string
	count int // of values
	set   func(value int)
	value func(value int) any
}

func placeOf[T any](path string, values []T, set func(T)) place {
	return place{path, len(values), func(i int) { set(values[i]) }, func(i int) any { return values[i] }}
}

// places are those below v, which stands at path. At most one change may be made.
func places(v reflect.Value, path string) []place {
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		return []place{placeOf(path, nastyQuantities, func(text string) { *q = resource.MustParse(text) })}
	}
	switch v.Kind() {
	case reflect.String:
		if isWord(path) {
			return []place{placeOf(path, slices.Concat(nastyTexts, nastyWords), v.SetString)}
		}
		return []place{placeOf(path, nastyTexts, v.SetString)}
	case reflect.Int32, reflect.Int64:
		return []place{placeOf(path, slices.DeleteFunc(slices.Clone(nastyNumbers), v.OverflowInt), v.SetInt)}
	case reflect.Bool:
		return []place{placeOf(path, []bool{!v.Bool()}, v.SetBool)}
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return append(places(v.Elem(), path), placeOf(path, []string{"unset"}, func(string) { v.SetZero() }))
	case reflect.Slice:
		return placesOfSlice(v, path)
	case reflect.Map:
		return placesOfMap(v, path)
	case reflect.Struct:
		var all []place
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, places(v.Field(i), path+"."+name)...)
		}
		return all
	}
	panic("nothing to change in a " + v.Kind().String() + " at " + path)
}

// placesOfSlice change its elements, empty it, and say its last element twice.
func placesOfSlice(v reflect.Value, path string) []place {
	all := []place{placeOf(path, []string{"empty"}, func(string) { v.SetZero() })}
	for i := range v.Len() {
		all = append(all, places(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
	}
	if n := v.Len(); n > 0 {
		all = append(all, placeOf(path, []string{"the last twice"}, func(string) { v.Set(reflect.Append(v, v.Index(n-1))) }))
	}
	return all
}

// placesOfMap change its values, empty it, and move its first value to other keys.
func placesOfMap(v reflect.Value, path string) []place {
	all := []place{placeOf(path, []string{"empty"}, func(string) { v.SetZero() })}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for i, key := range keys {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		for _, p := range places(value, path+"["+key.String()+"]") {
			set := p.set
			p.set = func(i int) {
				set(i)
				v.SetMapIndex(key, value)
			}
			all = append(all, p)
		}
		if i == 0 {
			all = append(all, placeOf(path+" key", slices.Concat(nastyTexts, nastyKeys), func(text string) {
				v.SetMapIndex(key, reflect.Value{})
				v.SetMapIndex(reflect.ValueOf(text).Convert(key.Type()), value)
			}))
		}
	}
	return all
}

// inquiry asks an API server about everything that follows from a MiniCluster that is valid: what is
// rendered, the pods, and the FleetMiniCluster itself. Each different object is asked about once.
type inquiry struct {
	sync.Mutex
	asked map[string]bool
	found []string
}

func (r *inquiry) ask(ctx context.Context, what, name string, spec *fluxv1alpha2.MiniClusterSpec) {
	bundle, err := render.Render(render.Input{Name: name, Namespace: "default", Spec: *spec, CurveCert: testCertificate()})
	if err != nil {
		r.add("%s: rendering: %v", what, err)
		return
	}
	objects := []client.Object{&v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.FleetMiniClusterSpec{MiniCluster: *spec, Placement: &v1alpha1.PlacementSpec{}},
	}}
	for _, o := range bundle.Objects() {
		objects = append(objects, o)
	}
	pod := &corev1.Pod{ObjectMeta: *bundle.Job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *bundle.Job.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Spec.Hostname = name+"-0-x", fmt.Sprintf("%s-%d", name, spec.LargestSize()-1)
	for _, o := range append(objects, pod) {
		body, err := json.Marshal(o)
		if err != nil {
			r.add("%s: %v", what, err)
			continue
		}
		if c, ok := o.(*corev1.ConfigMap); ok {
			// Of its text, which is valid UTF-8 by now, a server only looks at the length.
			body = fmt.Append(nil, slices.Sorted(maps.Keys(c.Data)), len(body) < 1<<20)
		}
		if !r.first(fmt.Sprintf("%T %s", o, body)) {
			continue
		}
		err = hub.Create(ctx, o, client.DryRunAll)
		// Admission that depends on what the cluster has, such as service accounts, is Forbidden.
		if err != nil && !apierrors.IsForbidden(err) {
			r.add("%s: %T: %v", what, o, err)
		}
	}
}

func (r *inquiry) first(object string) bool {
	r.Lock()
	defer r.Unlock()
	seen := r.asked[object]
	r.asked[object] = true
	return !seen
}

func (r *inquiry) add(format string, args ...any) {
	r.Lock()
	defer r.Unlock()
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

func (r *inquiry) mustBeEmpty() {
	GinkgoHelper()
	if slices.Sort(r.found); len(r.found) > 0 {
		Fail(fmt.Sprintf("%d refusals:\n%s", len(r.found), strings.Join(r.found, "\n")))
	}
}

func validate(name string, spec *fluxv1alpha2.MiniClusterSpec) field.ErrorList {
	return fluxv1alpha2.Validate(name, spec, field.NewPath("spec"))
}

// createRuntimeClass creates the RuntimeClass of pods that have one: admission wants it to be there, with the
// overhead that the pods have.
func createRuntimeClass(ctx context.Context, pod *fluxv1alpha2.PodSpec) {
	GinkgoHelper()
	if pod.RuntimeClassName == "" {
		return
	}
	overhead := &nodev1.Overhead{PodFixed: pod.Resources}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: pod.RuntimeClassName}, Handler: "kata", Overhead: overhead}
	Expect(hub.Create(ctx, class)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return hub.Delete(ctx, class) })
}

var _ = Describe("Validate", func() {
	// In parts, which several processes share.
	const parts = 4
	DescribeTable("accepts nothing that an API server refuses", func(ctx SpecContext, part int) {
		Expect(validate("lammps", everything())).To(BeEmpty())
		createRuntimeClass(ctx, &everything().Pod)

		r := &inquiry{asked: map[string]bool{}}
		work := make(chan func())
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for f := range work {
					f()
				}
			})
		}
		changes := 0
		for i, p := range placesOf(everything()) {
			for j := range p.count {
				changes++
				if changes%parts != part {
					continue
				}
				work <- func() {
					spec := everything()
					placesOf(spec)[i].set(j)
					if len(validate("lammps", spec)) == 0 {
						r.ask(ctx, fmt.Sprintf("%s = %.80q", p.path, fmt.Sprint(p.value(j))), "lammps", spec)
					}
				}
			}
		}
		for i, name := range nastyTexts {
			if i%parts != part {
				continue
			}
			work <- func() {
				if len(validate(name, everything())) == 0 {
					r.ask(ctx, "metadata.name = "+name, name, everything())
				}
			}
		}
		close(work)
		workers.Wait()
		GinkgoWriter.Printf("%d changes, %d objects\n", changes, len(r.asked))
		r.mustBeEmpty()
	}, Entry("part 1", 0), Entry("part 2", 1), Entry("part 3", 2), Entry("part 4", 3))

	It("tells all that is wrong in one condition, and how much more there is", func(ctx SpecContext) {
		w := newWorld(ctx)
		wrong := w.fmc("wrong", nil)
		wrong.Spec.MiniCluster.Archive.Path = "/a/\u202e"
		wrong.Spec.MiniCluster.Containers[0].Image = "Not An Image"
		wrong.Spec.MiniCluster.Pod.ServiceAccountName = "Not A Name"
		wrong.Spec.MiniCluster.JobLabels = map[string]string{}
		for i := range 200 {
			wrong.Spec.MiniCluster.JobLabels[fmt.Sprintf("not a label %d \u202e", i)] = ""
		}
		Expect(hub.Create(ctx, wrong)).To(Succeed())
		ready := func() metav1.Condition {
			c := meta.FindStatusCondition(w.get(ctx, "wrong").Status.Conditions, v1alpha1.ConditionReady)
			return ptr.Deref(c, metav1.Condition{})
		}
		Eventually(ready).Should(And(HaveField("Reason", v1alpha1.ReasonInvalidSpec), HaveField("Status", metav1.ConditionFalse)))
		Expect(ready().Message).To(And(
			ContainSubstring("spec.miniCluster.containers[0].image: "), ContainSubstring("spec.miniCluster.pod.serviceAccountName: "),
			MatchRegexp(`; and 1[0-9][0-9] more$`), Not(ContainSubstring("\u202e")),
		))
		Expect(len(ready().Message)).To(BeNumerically("<=", sanitize.MaxMessage))
	})

	It("accepts MiniClusters of all kinds, and an API server what they become", func(ctx SpecContext) {
		r := &inquiry{asked: map[string]bool{}}
		for _, m := range slices.Concat(miniclustertest.Own(), sharedManifests()) {
			decoded, err := m.MiniCluster()
			Expect(err).NotTo(HaveOccurred())
			Expect(validate(decoded.Name, &decoded.Spec)).To(BeEmpty(), m.Path)
			createRuntimeClass(ctx, &decoded.Spec.Pod)
			r.ask(ctx, m.Path, decoded.Name, &decoded.Spec)
		}
		r.mustBeEmpty()
	})
})
