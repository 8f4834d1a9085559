package live

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/view"
)

// canary is in everything that nobody may see.
const canary = "canary-value"

// started is a FleetMiniCluster whose run is for what is wanted, and the member that has its objects as they were made.
func startedOn(t *testing.T, r *Reader, member string, change ...func(*v1alpha1.FleetMiniCluster)) (*v1alpha1.FleetMiniCluster, *fake) {
	t.Helper()
	f := running(member)
	for _, c := range change {
		c(f)
	}
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	f.Status.Runs[0].Digest = runs.Digest(f.Name, spec)
	objects, remark, err := r.rendered(Wanted{Object: f}.on(member))
	if err != nil || remark != "" {
		t.Fatal(remark, err)
	}
	m := &fake{objects: map[string]client.Object{}}
	for _, o := range objects {
		m.objects[o.kind+"/"+o.want.GetName()] = asServed(o.want)
	}
	return f, m
}

// asServed is an object as a member serves it, with what it adds.
func asServed(obj client.Object) client.Object {
	obj, _ = obj.DeepCopyObject().(client.Object)
	obj.SetUID("uid-of-" + obj.GetUID())
	obj.SetResourceVersion("77")
	obj.SetLabels(with(obj.GetLabels(), "added-by", "the member"))
	switch o := obj.(type) {
	case *corev1.Secret:
		o.Data = map[string][]byte{"curve.cert": []byte(canary)}
		o.Annotations["minifleet.dev/content"] = contentOf(o)
	case *batchv1.Job:
		o.Spec.Template.Labels["batch.kubernetes.io/controller-uid"] = "u"
		o.Spec.Template.Spec.SchedulerName = "default-scheduler"
		o.Spec.Suspend = ptr.To(false)
		o.Status.Active = 2
	case *corev1.Service:
		o.Spec.ClusterIPs = []string{"None"}
	case *corev1.Pod:
		o.Spec.Tolerations = append(o.Spec.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/not-ready"})
		o.Spec.Containers[0].VolumeMounts = append(o.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: "/var/run"})
	}
	return obj
}

func with(labels map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range labels {
		out[k] = v
	}
	return out
}

// told are the states and messages of differences, by object.
func told(ds []view.Difference) map[string]string {
	out := map[string]string{}
	for _, d := range ds {
		out[d.Kind+"/"+d.Name] = strings.TrimSpace(d.State + " " + d.Message)
	}
	return out
}

// changed has one of a map replaced.
func changed(all map[string]string, name, state string) map[string]string {
	out := with(all, name, state)
	out[name] = state
	return out
}

func TestDifferences(t *testing.T) {
	same := map[string]string{"Job/lammps": "Same", "ConfigMap/lammps-entrypoint": "Same", "Secret/lammps-curve": "Same", "Service/lammps": "Same"}
	others := map[string]string{}
	for name := range same {
		others[name] = "Missing no run has begun there yet"
	}
	cases := map[string]struct {
		object func(*v1alpha1.FleetMiniCluster)
		member func(*fake)
		want   map[string]string
		shows  map[string]string // of the object, in what is there
	}{
		"as wanted": {nil, nil, same, nil},
		"an edited ConfigMap": {nil, func(m *fake) {
			c := m.objects["ConfigMap/lammps-entrypoint"].(*corev1.ConfigMap)
			c.Data["extra.sh"] = "rm -rf /\x1b[2J\u202e"
		}, changed(same, "ConfigMap/lammps-entrypoint", "Different"), map[string]string{"ConfigMap/lammps-entrypoint": "extra.sh: \"rm -rf /\\e[2J\uFFFD\""}},
		"an edited Secret": {nil, func(m *fake) {
			m.objects["Secret/lammps-curve"].(*corev1.Secret).Data["curve.cert"] = []byte(canary + "!")
		},
			changed(same, "Secret/lammps-curve", "Different"), map[string]string{"Secret/lammps-curve": "curve.cert: <changed>"}},
		"a key more in a Secret": {nil, func(m *fake) { m.objects["Secret/lammps-curve"].(*corev1.Secret).Data["more"] = []byte(canary) },
			changed(same, "Secret/lammps-curve", "Different"), map[string]string{"Secret/lammps-curve": "more: <changed>"}},
		"an edited Job": {nil, func(m *fake) { m.objects["Job/lammps"].(*batchv1.Job).Spec.Parallelism = ptr.To(int32(7)) },
			changed(same, "Job/lammps", "Different"), map[string]string{"Job/lammps": "parallelism: 7"}},
		"a container that somebody has added": {nil, func(m *fake) {
			spec := &m.objects["Job/lammps"].(*batchv1.Job).Spec.Template.Spec
			spec.Containers = append(spec.Containers, corev1.Container{Name: "miner"})
		}, changed(same, "Job/lammps", "Different"), map[string]string{"Job/lammps": "name: miner"}},
		"suspended by a queue on the member": {nil, func(m *fake) { m.objects["Job/lammps"].(*batchv1.Job).Spec.Suspend = ptr.To(true) }, same, nil},
		"a Service is missing":               {nil, func(m *fake) { delete(m.objects, "Service/lammps") }, changed(same, "Service/lammps", "Missing"), nil},
		"somebody else's": {nil, func(m *fake) {
			c := m.objects["ConfigMap/lammps-entrypoint"].(*corev1.ConfigMap)
			c.Annotations, c.Data = map[string]string{v1alpha1.AnnotationOwner: canary + "/lammps"}, map[string]string{"x": canary}
		}, changed(same, "ConfigMap/lammps-entrypoint", "Different an object of this name is there that does not belong to this MiniCluster; it is not changed"), nil},
		"something that is not wanted": {nil, func(m *fake) {
			s := m.objects["Service/lammps"].DeepCopyObject().(*corev1.Service)
			s.Name = "old"
			m.objects["Service/old"] = s
		}, changed(same, "Service/old", "Extra it is not part of what is wanted there"), map[string]string{"Service/old": "clusterIP: None"}},
		"a Secret that is not wanted": {nil, func(m *fake) {
			s := m.objects["Secret/lammps-curve"].DeepCopyObject().(*corev1.Secret)
			s.Name, s.Data["k"] = "old", []byte(canary)
			s.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = canary
			m.objects["Secret/old"] = s
		}, changed(same, "Secret/old", "Extra it is not part of what is wanted there"), map[string]string{"Secret/old": "curve.cert: <set>"}},
		"an earlier version runs": {func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.MiniCluster.Containers[0].Image = "ghcr.io/example/lammps:2"
		}, nil, map[string]string{
			"Job/lammps":                  "Different run 00000000aa began with an earlier version of the MiniCluster: this is what the next one will have",
			"ConfigMap/lammps-entrypoint": "Same run 00000000aa began with an earlier version of the MiniCluster: this is what the next one will have",
			"Secret/lammps-curve":         "Same run 00000000aa began with an earlier version of the MiniCluster: this is what the next one will have",
			"Service/lammps":              "Same run 00000000aa began with an earlier version of the MiniCluster: this is what the next one will have",
		}, map[string]string{"Job/lammps": "image: ghcr.io/example/lammps:1"}},
		"nothing has begun":                 {func(f *v1alpha1.FleetMiniCluster) { f.Status.Runs, f.Status.Clusters[0].Run = nil, "" }, func(m *fake) { clear(m.objects) }, others, nil},
		"it has ended, and nothing is kept": {func(f *v1alpha1.FleetMiniCluster) { f.Status.Runs[0].State = v1alpha1.RunSucceeded }, func(m *fake) { clear(m.objects) }, map[string]string{}, nil},
		"it is not in the placement any more": {func(f *v1alpha1.FleetMiniCluster) {
			f.Status.Runs[0].State, f.Status.Placement.Clusters = v1alpha1.RunSucceeded, nil
		}, func(m *fake) {
			delete(m.objects, "Job/lammps")
			delete(m.objects, "Secret/lammps-curve")
			delete(m.objects, "Service/lammps")
		},
			map[string]string{"ConfigMap/lammps-entrypoint": "Extra it is not part of what is wanted there"}, nil},
		"the member refuses": {nil, func(m *fake) {
			m.err = apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "lammps", errRefused)
		}, map[string]string{
			"Job/lammps":                  `Unknown jobs "lammps" is forbidden: refused`,
			"ConfigMap/lammps-entrypoint": `Unknown jobs "lammps" is forbidden: refused`, "Secret/lammps-curve": `Unknown jobs "lammps" is forbidden: refused`,
			"Service/lammps": `Unknown jobs "lammps" is forbidden: refused`,
		}, nil},
		"it cannot be rendered": {func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Containers = nil }, nil, map[string]string{
			"MiniCluster/lammps": "Unknown rendering: MiniCluster hpc/lammps: spec.containers: Required value: name at least one container",
		}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := reader(nil)
			f, m := startedOn(t, r, "alpine")
			if c.object != nil {
				c.object(f)
			}
			if c.member != nil {
				c.member(m)
			}
			r.Members = fakes{"alpine": m}
			got := r.Differences(t.Context(), Wanted{Object: f})
			if name == "it cannot be rendered" {
				got[0].Message = strings.Join(strings.Fields(got[0].Message)[:12], " ")
				c.want["MiniCluster/lammps"] = "Unknown " + got[0].Message
			}
			if diff := cmp.Diff(c.want, told(got)); diff != "" {
				t.Error(diff)
			}
			secretFree(t, got)
			for _, d := range got {
				if want := c.shows[d.Kind+"/"+d.Name]; !strings.Contains(d.Live, want) {
					t.Errorf("%s does not show %s", d.Live, want)
				}
				if (d.State == view.DiffSame || d.State == view.DiffMissing) && d.Live != "" {
					t.Errorf("%s %s shows what is there: %s", d.State, d.Name, d.Live)
				}
			}
		})
	}
}

// secretFree finds what must not be told.
func secretFree(t *testing.T, ds []view.Difference) {
	t.Helper()
	raw, err := json.Marshal(ds)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{canary, "minifleet.dev/content", "minifleet.dev/digest", "minifleet.dev/run-digest", "secret-key", "public-key"} {
		if strings.Contains(string(raw), hidden) {
			t.Errorf("%s is in %s", hidden, raw)
		}
	}
}

// What is there of a pod of services is compared without what every member adds to pods.
func TestDifferencesOfServices(t *testing.T) {
	r := reader(nil)
	f, m := startedOn(t, r, "alpine", func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.MiniCluster.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "db", Image: "postgres:17"}}
	})
	r.Members = fakes{"alpine": m}
	if got := told(r.Differences(t.Context(), Wanted{Object: f})); got["Pod/lammps-services"] != "Same" {
		t.Errorf("got %v", got)
	}
}

// What a person has put into the spec is compared key by key, and shown no more than what the hub has made.
func TestDifferencesOfAGivenCertificate(t *testing.T) {
	cert, err := certificate("lammps")
	if err != nil {
		t.Fatal(err)
	}
	r := reader(nil)
	f, m := startedOn(t, r, "alpine", func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Flux.CurveCert = string(cert) })
	r.Members = fakes{"alpine": m} // which has another one
	got := r.Differences(t.Context(), Wanted{Object: f})
	if told(got)["Secret/lammps-curve"] != "Different" {
		t.Errorf("got %v", told(got))
	}
	secretFree(t, got)
}

func TestDifferencesOfMembersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running("alpine", "basalt")
		r := reader(fakes{"alpine": {hung: true}, "basalt": {away: true}})
		inTime(t, "the comparison", func() {
			for _, d := range r.Differences(t.Context(), Wanted{Object: f}) {
				want := map[string]string{"alpine": "the member did not answer in time", "basalt": "the member cannot be reached"}[d.Member]
				if d.State != view.DiffUnknown || d.Message != want || d.Desired == "" || d.Live != "" {
					t.Errorf("%s %s: %s %s", d.Member, d.Name, d.State, d.Message)
				}
			}
		})
	})
}

// contentOf is what a Secret carries that was applied as it is: any other value says that it was edited.
func contentOf(s *corev1.Secret) string {
	return clusters.SecretContent(s)
}
