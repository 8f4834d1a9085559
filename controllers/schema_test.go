package controllers_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/policy"
)

// offer asks the API server what it would make of a manifest, in which unknown fields are errors. Nothing
// is stored.
func offer(ctx context.Context, manifest string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	return offerTo(ctx, client.WithFieldValidation(hub, metav1.FieldValidationStrict), manifest)
}

func offerTo(ctx context.Context, c client.Client, manifest string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	obj := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &obj.Object)).To(Succeed(), manifest)
	if obj.GetKind() != "MemberCluster" {
		obj.SetNamespace("default")
	}
	return obj, c.Create(ctx, obj, client.DryRunAll)
}

func fmcManifest(name, spec string) string {
	return "apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\nmetadata:\n  name: " + name + "\nspec:\n" + indent(spec)
}

func gitSourceManifest(spec string) string {
	return "apiVersion: minifleet.dev/v1alpha1\nkind: GitSource\nmetadata:\n  name: s\nspec:\n" + indent(spec)
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

const (
	anywhere  = "placement: {}\n"
	container = "miniCluster: {containers: [{image: example.org/app}]}\n"
	someURL   = "url: https://git.example.org/fleet\n"
)

// miniClusterOf decodes the MiniCluster in what the API server would store.
func miniClusterOf(obj *unstructured.Unstructured) fluxv1alpha2.MiniClusterSpec {
	GinkgoHelper()
	body, err := yaml.Marshal(obj.Object)
	Expect(err).NotTo(HaveOccurred())
	var f v1alpha1.FleetMiniCluster
	Expect(yaml.UnmarshalStrict(body, &f)).To(Succeed())
	return f.Spec.MiniCluster
}

// sharedManifests are the Flux Operator's examples; where there are none, the report of the spec says so.
func sharedManifests() []miniclustertest.Manifest {
	GinkgoHelper()
	shared, err := miniclustertest.Shared()
	if err != nil {
		AddReportEntry("only our own manifests are tested", err.Error())
	}
	return shared
}

// offerMiniCluster offers the API server a manifest's MiniCluster, and compares what it would store.
func offerMiniCluster(ctx context.Context, c client.Client, m miniclustertest.Manifest) {
	GinkgoHelper()
	var file struct{ Spec map[string]any }
	Expect(yaml.Unmarshal(m.Text, &file)).To(Succeed(), m.Path)
	spec, err := yaml.Marshal(map[string]any{"miniCluster": file.Spec, "placement": map[string]any{}})
	Expect(err).NotTo(HaveOccurred())
	decoded, err := m.MiniCluster()
	Expect(err).NotTo(HaveOccurred())
	stored, err := offerTo(ctx, c, fmcManifest(decoded.Name, string(spec)))
	Expect(err).NotTo(HaveOccurred(), m.Path)

	want, got := decoded.Spec, miniClusterOf(stored)
	want.Default()
	got.Default()
	Expect(cmp.Diff(want, got)).To(BeEmpty(), m.Path)
}

var _ = Describe("The API server", func() {
	It("accepts MiniClusters of all kinds, unchanged, and means by them what MiniFleet does", func(ctx SpecContext) {
		for _, m := range miniclustertest.Own() {
			offerMiniCluster(ctx, client.WithFieldValidation(hub, metav1.FieldValidationStrict), m)
		}
		// One of these has a field that the upstream schema drops as well.
		for _, m := range sharedManifests() {
			offerMiniCluster(ctx, client.WithFieldValidation(hub, metav1.FieldValidationIgnore), m)
		}
	})

	It("gives the defaults that MiniFleet gives", func(ctx SpecContext) {
		stored, err := offer(ctx, fmcManifest("a", anywhere+"miniCluster: {flux: {container: {}, scheduler: {}}, containers: [{runFlux: true}]}"))
		Expect(err).NotTo(HaveOccurred())
		want := fluxv1alpha2.MiniClusterSpec{Containers: []fluxv1alpha2.MiniClusterContainer{{RunFlux: true}}}
		want.Default()
		want.Flux.Scheduler.QueuePolicy = "" // which the upstream schema leaves to the operator
		Expect(cmp.Diff(want, miniClusterOf(stored))).To(BeEmpty())

		stored, err = offer(ctx, gitSourceManifest(someURL))
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Object["spec"]).To(Equal(map[string]any{
			"url": "https://git.example.org/fleet", "interval": "1m", "timeout": "60s", "prune": true,
			"mode": "Apply", "deletionPolicy": "Orphan",
		}))
		stored, err = offer(ctx, "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, kubeconfigSecretRef: {name: m}}")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Object["spec"]).To(HaveKeyWithValue("createNamespaces", true))
	})

	DescribeTable("accepts", func(ctx SpecContext, manifest string) {
		_, err := offer(ctx, manifest)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("the longest name", fmcManifest(strings.Repeat("n", 58), anywhere+container)),
		Entry("a placementRef", fmcManifest("a", "placementRef: {name: p}\n"+container)),
		Entry("an override of each kind of value", fmcManifest("a", "placement: {overrides: [{name: x, patches: [{op: add, path: /tasks, value: 1}, {op: add, path: /pod/nodeSelector, value: {a: b}}, {op: add, path: /containers/-, value: [x]}, {op: copy, from: /a, path: /b}]}]}\n"+container)),
		Entry("a size at maxSize", fmcManifest("a", anywhere+"miniCluster: {size: 4, maxSize: 4, containers: [{image: x}]}")),
		Entry("plain HTTP", gitSourceManifest("url: http://127.0.0.1:8080/fleet.git")),
		Entry("SSH", gitSourceManifest("url: ssh://git@example.org/fleet")),
		Entry("scp's way of writing SSH", gitSourceManifest("url: git@example.org:fleet")),
		Entry("a path with dots in names", gitSourceManifest(someURL+"path: apps/..v2/x..y")),
		Entry("the shortest interval", gitSourceManifest(someURL+"interval: 1s")),
		Entry("the longest interval", gitSourceManifest(someURL+"interval: 24h")),
		Entry("a source with every permission", gitSourceManifest(someURL+"allow: ["+policy.Join(v1alpha1.Permissions())+"]")),
		Entry("a full commit", gitSourceManifest(someURL+"ref: {commit: "+strings.Repeat("a", 40)+"}")),
		Entry("a range of versions", gitSourceManifest(someURL+`ref: {semver: ">=1.2.0 <2.0.0"}`)),
	)

	DescribeTable("refuses, and says how to correct it,", func(ctx SpecContext, manifest string, parts ...string) {
		_, err := offer(ctx, manifest)
		Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		for _, w := range parts {
			Expect(err).To(MatchError(ContainSubstring(w)))
		}
	},
		Entry("no placement at all", fmcManifest("a", container), "spec", "exactly one of placement and placementRef"),
		Entry("two placements", fmcManifest("a", anywhere+"placementRef: {name: p}\n"+container), "spec", "exactly one of placement and placementRef"),
		Entry("no MiniCluster", fmcManifest("a", anywhere), "spec.miniCluster"),
		Entry("an unknown field", fmcManifest("a", anywhere+container+"placment: {}"), "spec.placment"),
		Entry("an unknown field of the MiniCluster", fmcManifest("a", anywhere+"miniCluster: {containers: [{image: x, comand: y}]}"), "comand"),
		Entry("an unknown onChange", fmcManifest("a", anywhere+container+"onChange: Never"), "spec.onChange", "AfterCompletion"),
		Entry("no members", fmcManifest("a", "placement: {numberOfClusters: 0}\n"+container), "spec.placement.numberOfClusters"),
		Entry("a toleration of nothing", fmcManifest("a", "placement: {tolerations: [{value: x}]}\n"+container), "spec.placement.tolerations", "set key, or operator: Exists"),
		Entry("a toleration of any value, and of one", fmcManifest("a", "placement: {tolerations: [{key: x, operator: Exists, value: x}]}\n"+container), "spec.placement.tolerations", "remove value"),
		Entry("an unknown prioritizer", fmcManifest("a", "placement: {prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Luck}}]}}\n"+container), "builtIn", "Steady"),
		Entry("a prioritizer that is none", fmcManifest("a", "placement: {prioritizerPolicy: {configurations: [{scoreCoordinate: {}}]}}\n"+container), "scoreCoordinate", "set builtIn with type BuiltIn, and label with type Label"),
		Entry("a prioritizer of two kinds", fmcManifest("a", "placement: {prioritizerPolicy: {configurations: [{scoreCoordinate: {type: Label, label: cost, builtIn: Steady}}]}}\n"+container), "set builtIn with type BuiltIn, and label with type Label"),
		Entry("a weight that is too great", fmcManifest("a", "placement: {prioritizerPolicy: {configurations: [{scoreCoordinate: {builtIn: Steady}, weight: 11}]}}\n"+container), "weight"),
		Entry("a spread of all members", fmcManifest("a", "placement: {spreadPolicy: {spreadConstraints: [{topologyKey: site}]}}\n"+container), "spreadPolicy", "set numberOfClusters, or remove spreadPolicy"),
		Entry("a spread over nothing", fmcManifest("a", "placement: {numberOfClusters: 1, spreadPolicy: {spreadConstraints: [{topologyKey: \"\"}]}}\n"+container), "topologyKey"),
		Entry("a taint without an effect", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, kubeconfigSecretRef: {name: m}, taints: [{key: x}]}", "spec.taints[0].effect"),
		Entry("a taint of another effect", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, kubeconfigSecretRef: {name: m}, taints: [{key: x, effect: NoExecute}]}", "spec.taints[0].effect", "PreferNoSelect"),
		Entry("an override that does nothing", fmcManifest("a", "placement: {overrides: [{name: x, patches: []}]}\n"+container), "spec.placement.overrides[0].patches"),
		Entry("two overrides of one name", fmcManifest("a", "placement: {overrides: [{name: x, patches: [{op: remove, path: /tasks}]}, {name: x, patches: [{op: remove, path: /tasks}]}]}\n"+container), "spec.placement.overrides[1]", "Duplicate"),
		Entry("a patch from nowhere", fmcManifest("a", "placement: {overrides: [{name: x, patches: [{op: move, path: /tasks}]}]}\n"+container), "set from with move and copy"),
		Entry("a patch without a path", fmcManifest("a", "placement: {overrides: [{name: x, patches: [{op: add, path: tasks, value: 1}]}]}\n"+container), "patches[0].path"),
		Entry("a size above maxSize", fmcManifest("a", anywhere+"miniCluster: {size: 5, maxSize: 4, containers: [{image: x}]}"), "size must not be above maxSize", "maxSize"),
		Entry("a negative maxSize", fmcManifest("a", anywhere+"miniCluster: {maxSize: -1, containers: [{image: x}]}"), "maxSize"),
		Entry("a negative size", fmcManifest("a", anywhere+"miniCluster: {size: -1, containers: [{image: x}]}"), "size"),
		Entry("two containers, none that runs Flux", fmcManifest("a", anywhere+"miniCluster: {containers: [{name: a}, {name: b}]}"), "exactly one container runs Flux", "runFlux: true"),
		Entry("a sidecar without a name", fmcManifest("a", anywhere+"miniCluster: {containers: [{runFlux: true}, {}]}"), "needs a name"),
		Entry("launcher and batch", fmcManifest("a", anywhere+"miniCluster: {containers: [{command: a, launcher: true, batch: true}]}"), "choose one"),
		Entry("command and script", fmcManifest("a", anywhere+"miniCluster: {containers: [{command: a, commands: {script: b}}]}"), "choose one"),
		Entry("a service that runs Flux", fmcManifest("a", anywhere+"miniCluster: {containers: [{}], services: [{name: a, runFlux: true}]}"), "move it to containers"),
		Entry("a service with a broker's command", fmcManifest("a", anywhere+"miniCluster: {containers: [{}], services: [{name: a, commands: {pre: b}}]}"), "servicePre"),
		Entry("a relative working directory", fmcManifest("a", anywhere+"miniCluster: {containers: [{workingDir: a}]}"), "containers[0].workingDir", "begin it with /"),
		Entry("a volume without a path", fmcManifest("a", anywhere+"miniCluster: {containers: [{volumes: {v: {claimName: c}}}]}"), "volumes", "set path"),
		Entry("a volume of two kinds", fmcManifest("a", anywhere+"miniCluster: {containers: [{volumes: {v: {path: /v, claimName: c, hostPath: /h}}}]}"), "volumes", "one source"),
		Entry("a medium that there is none of", fmcManifest("a", anywhere+"miniCluster: {containers: [{volumes: {v: {path: /v, emptyDirMedium: disk}}}]}"), "emptyDirMedium", "memory"),
		Entry("a duration that is none", fmcManifest("a", anywhere+"miniCluster: {flux: {connectTimeout: soon}, containers: [{}]}"), "connectTimeout", "5s"),
		Entry("a log level that is none", fmcManifest("a", anywhere+"miniCluster: {flux: {logLevel: 8}, containers: [{}]}"), "logLevel"),
		Entry("a mount path on the root", fmcManifest("a", anywhere+"miniCluster: {flux: {container: {mountPath: /}}, containers: [{}]}"), "mountPath", "root"),
		Entry("a hostlist and clusters", fmcManifest("a", anywhere+"miniCluster: {flux: {bursting: {hostlist: a, clusters: [{}]}}, containers: [{}]}"), "bursting", "choose one"),
		Entry("a Service's name that is none", fmcManifest("a", anywhere+"miniCluster: {network: {headlessName: 1a}, containers: [{}]}"), "headlessName", "letter"),
		Entry("an unknown effect", fmcManifest("a", anywhere+"miniCluster: {pod: {tolerations: [{key: a, effect: Some}]}, containers: [{}]}"), "effect", "NoSchedule"),
		Entry("a name that is too long", fmcManifest(strings.Repeat("n", 59), anywhere+container), "metadata.name", "58"),
		Entry("a name that is no label", fmcManifest("a.b", anywhere+container), "metadata.name"),
		Entry("a name that begins with a digit", fmcManifest("1a", anywhere+container), "metadata.name", "letter"),
		Entry("a source without a URL", gitSourceManifest("path: x"), "spec.url"),
		Entry("a file as source", gitSourceManifest("url: file:///etc"), "spec.url"),
		Entry("a program as source", gitSourceManifest(`url: "ext::sh -c touch"`), "spec.url"),
		Entry("a password in a URL of SSH", gitSourceManifest("url: ssh://git:password@example.org/fleet"), "spec.url"),
		Entry("a commit of SHA-256", gitSourceManifest(someURL+"ref: {commit: "+strings.Repeat("a", 64)+"}"), "spec.ref.commit"),
		Entry("path and paths", gitSourceManifest(someURL+"path: a\npaths: [b]"), "set path or paths, not both"),
		Entry("credentials in the URL", gitSourceManifest("url: https://user:password@example.org/fleet"), "spec.url"),
		Entry("a path from the root", gitSourceManifest(someURL+"path: /apps"), "spec.path", "relative"),
		Entry("a path that leaves", gitSourceManifest(someURL+"path: apps/../../etc"), "spec.path", "relative"),
		Entry("an interval that is too short", gitSourceManifest(someURL+"interval: 999ms"), "spec.interval", "at least 1s"),
		Entry("an interval that is too long", gitSourceManifest(someURL+"interval: 25h"), "spec.interval", "at most 24h"),
		Entry("an interval that is none", gitSourceManifest(someURL+"interval: often"), "spec.interval"),
		Entry("a permission that there is not", gitSourceManifest(someURL+"allow: [Everything]"), "spec.allow[0]"),
		Entry("a permission twice", gitSourceManifest(someURL+"allow: [HostPath, HostPath]"), "spec.allow[1]"),
		Entry("an empty ref", gitSourceManifest(someURL+"ref: {}"), "spec.ref", "exactly one of branch, tag, semver, name and commit"),
		Entry("two refs", gitSourceManifest(someURL+"ref: {branch: main, tag: v1}"), "spec.ref", "exactly one of branch, tag, semver, name and commit"),
		Entry("a short commit", gitSourceManifest(someURL+"ref: {commit: abc1234}"), "spec.ref.commit"),
		Entry("a member without a Secret", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {}", "spec.kubeconfigSecretRef"),
		Entry("a member with a Secret and a ClusterProfile", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, kubeconfigSecretRef: {name: m}, clusterProfileRef: {name: m}}", "spec.kubeconfigSecretRef", "and not both"),
		Entry("a member without a way to it", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}}", "spec.kubeconfigSecretRef", "clusterProfileRef"),
		Entry("a ClusterProfile without a name", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, clusterProfileRef: {name: ''}}", "spec.clusterProfileRef.name"),
		Entry("a member's namespace that is none", "apiVersion: minifleet.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {namespaces: {from: All}, namespace: A_b, kubeconfigSecretRef: {name: m}}", "spec.namespace"),
	)

	It("keeps the size within maxSize when it is scaled", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.fmc("elastic", nil)
		f.Spec.Suspend = true
		f.Spec.MiniCluster.MaxSize = 4
		Expect(hub.Create(ctx, f)).To(Succeed())
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
		err := hub.SubResource("scale").Update(ctx, f, client.WithSubResourceBody(scale))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("size must not be above maxSize")))
		scale = &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
		Expect(hub.SubResource("scale").Update(ctx, f, client.WithSubResourceBody(scale))).To(Succeed())
		Expect(w.get(ctx, "elastic").Spec.MiniCluster.Size).To(BeEquivalentTo(4))
	})

	It("does not let a member move to another namespace", func(ctx SpecContext) {
		w := newWorld(ctx)
		free := w.enroll(ctx, "free")
		confined := w.enroll(ctx, "confined", confinedTo("here"))
		for _, m := range []*v1alpha1.MemberCluster{free, confined} {
			patch := func(body string) error {
				return hub.Patch(ctx, m.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)))
			}
			Expect(patch(`{"spec":{"namespace":"there"}}`)).To(MatchError(ContainSubstring("namespace is immutable")))
			Expect(patch(`{"spec":{"suspend":true}}`)).To(Succeed())
			Expect(patch(`{"metadata":{"labels":{"x":"y"}}}`)).To(Succeed())
		}
		Expect(hub.Patch(ctx, confined.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"namespace":null}}`)))).
			To(MatchError(ContainSubstring("namespace is immutable")))
	})

	It("knows the short names and the category", func() {
		cfg, err := labs.Cluster("hub").RESTConfig()
		Expect(err).NotTo(HaveOccurred())
		dc, err := discovery.NewDiscoveryClientForConfig(cfg)
		Expect(err).NotTo(HaveOccurred())
		list, err := dc.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())
		got := map[string]string{}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				got[r.Kind] = fmt.Sprint(r.ShortNames, r.Categories, r.Namespaced)
			}
		}
		Expect(got).To(Equal(map[string]string{
			"FleetMiniCluster": "[fmc] [minifleet] true", "GitSource": "[gs] [minifleet] true",
			"Placement": "[pl] [minifleet] true", "MemberCluster": "[mcl] [minifleet] false", "Notification": "[ntf] [minifleet] true",
		}))
	})

	It("prints the columns that people read", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.fmc("row", nil)
		f.Spec.Suspend = true
		Expect(hub.Create(ctx, f)).To(Succeed())
		Expect(hub.Create(ctx, &v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "row"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](2)},
		})).To(Succeed())
		Expect(hub.Create(ctx, &v1alpha1.GitSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "row"},
			Spec:       v1alpha1.GitSourceSpec{URL: "https://127.0.0.1:1/fleet", Suspend: true, Interval: metav1.Duration{Duration: 60e9}, Timeout: metav1.Duration{Duration: 60e9}},
		})).To(Succeed())
		w.enroll(ctx, "row")
		header := func(args ...string) []string {
			out := kubectl("", append([]string{"-n", w.name, "get"}, args...)...)
			return strings.Fields(strings.Split(out, "\n")[0])
		}
		Expect(header("fmc")).To(Equal(strings.Fields("NAME STATE READY SYNC HEALTH CLUSTERS PODS REVISION AGE")))
		Expect(header("fmc", "-o", "wide")).To(Equal(strings.Fields("NAME STATE READY SYNC HEALTH CLUSTERS PODS REVISION AUTHOR SUBJECT MEMBERS STATUS AGE")))
		Expect(header("gs")).To(Equal(strings.Fields("NAME READY REVISION MINICLUSTERS AGE")))
		Expect(header("pl")).To(Equal(strings.Fields("NAME CLUSTERS SELECTOR AGE")))
		Expect(header("mcl")).To(Equal(strings.Fields("NAME READY VERSION NODES CPU FREE/TOTAL AGE")))
		all := kubectl("", "-n", w.name, "get", "minifleet")
		for _, kind := range []string{"fleetminicluster", "gitsource", "placement", "membercluster"} {
			Expect(all).To(ContainSubstring(kind + ".minifleet.dev/"))
		}
	})
})
