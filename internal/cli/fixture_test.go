package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/config/policy"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// fleetCommit is the commit that the source fleet has applied.
const fleetCommit = "1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d"

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-d)} }

// steer is text that must not reach a terminal as it is.
const steer = "\x1b[2J\u009b31m\u202e"

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *ago(5 * time.Minute)}
}

func fleetMiniCluster(name string, state v1alpha1.State, edits ...func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, CreationTimestamp: *ago(3 * time.Hour), Generation: 1,
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: v1alpha1.FleetMiniClusterSpec{
			Placement:   &v1alpha1.PlacementSpec{},
			MiniCluster: fluxv1alpha2.MiniClusterSpec{Size: 4, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "lammps"}}},
		},
		Status: v1alpha1.FleetMiniClusterStatus{State: state, ObservedGeneration: 1},
	}
	for _, edit := range edits {
		edit(f)
	}
	return f
}

func why(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Conditions = append(f.Status.Conditions, condition(v1alpha1.ConditionReady, status, reason, message))
	}
}

func holds(kind string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Conditions = append(f.Status.Conditions, condition(kind, metav1.ConditionTrue, "Ended", ""))
	}
}

func fromGit(f *v1alpha1.FleetMiniCluster) {
	f.Labels[v1alpha1.LabelSource] = "fleet"
	f.Annotations[v1alpha1.AnnotationSourcePath] = "production/" + f.Name + ".yaml"
	f.Annotations[v1alpha1.AnnotationSourceRevision], f.Annotations[v1alpha1.AnnotationSourceCommit] = "main@1a2b3c4", fleetCommit
	f.Annotations[v1alpha1.AnnotationSourceAuthor], f.Annotations[v1alpha1.AnnotationSourceSubject] = "Ada", "Raise the size "+steer
	f.Status.Revision = "main@1a2b3c4"
}

func waitingFor(member, missing string, priority int32, old time.Duration) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Priority, f.CreationTimestamp = priority, *ago(old)
		f.Status.Placement = &v1alpha1.PlacementDecision{
			Wanted:  1,
			Waiting: []v1alpha1.RejectedCluster{{Name: member, Reason: missing}}, Rejected: []v1alpha1.RejectedCluster{{Name: "onyx", Reason: "has no label gpu=true"}},
		}
		why(metav1.ConditionFalse, v1alpha1.ReasonInsufficientCapacity, "waits for room; "+member+": "+missing)(f)
	}
}

// lammps runs on alpine and has succeeded on basalt.
func lammps() *v1alpha1.FleetMiniCluster {
	return fleetMiniCluster("lammps", v1alpha1.StateRunning, fromGit, why(metav1.ConditionTrue, v1alpha1.ReasonSynced, "3 of 4 pods ready; lammps-2: ImagePullBackOff: "+steer+"not found"),
		func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.MiniCluster.MaxSize = 8
			f.Labels["team"] = "md"
			st := &f.Status
			st.Sync, st.Health = v1alpha1.Synced, v1alpha1.Progressing
			st.Summary = &v1alpha1.Summary{Clusters: "2/2", Pods: "7/8", Members: "alpine, basalt"}
			st.Placement = &v1alpha1.PlacementDecision{Clusters: []string{"alpine", "basalt"}, Wanted: 2, Decisions: []v1alpha1.ClusterDecision{
				{Name: "alpine", Score: 100, Reason: "Steady 100"}, {Name: "basalt", Score: 0, Reason: "Steady 0"},
			}}
			st.Runs = []v1alpha1.Run{
				{ID: "9c1d000000", Cluster: "basalt", State: v1alpha1.RunSucceeded, Revision: "main@1a2b3c4", StartTime: ago(2 * time.Hour), CompletionTime: ago(time.Hour), Message: "the lead succeeded"},
				{ID: "3f2a000000", Cluster: "alpine", State: v1alpha1.RunRunning, Revision: "main@1a2b3c4", StartTime: ago(4 * time.Minute), RunningTime: ago(3 * time.Minute)},
			}
			st.Clusters = []v1alpha1.ClusterStatus{
				{Name: "alpine", Sync: v1alpha1.Synced, Health: v1alpha1.Progressing, Run: "3f2a000000", State: v1alpha1.RunRunning, Pods: v1alpha1.PodCounts{Desired: 4, Active: 4, Ready: 3}, Message: "lammps-2: ImagePullBackOff: " + steer + "not found"},
				{Name: "basalt", Sync: v1alpha1.Synced, Health: v1alpha1.Healthy, Run: "9c1d000000", State: v1alpha1.RunSucceeded, Pods: v1alpha1.PodCounts{Desired: 4, Succeeded: 4}},
			}
		})
}

func failed(f *v1alpha1.FleetMiniCluster) {
	f.Status.Placement = &v1alpha1.PlacementDecision{Clusters: []string{"alpine"}, Wanted: 1, Decisions: []v1alpha1.ClusterDecision{{Name: "alpine", Score: 100, Reason: "Steady 100"}}}
	f.Status.Clusters = []v1alpha1.ClusterStatus{{
		Name: "alpine", Sync: v1alpha1.Synced, Health: v1alpha1.Degraded, Run: "77aa000000", State: v1alpha1.RunFailed,
		Pods: v1alpha1.PodCounts{Desired: 4, Failed: 4}, Reason: v1alpha1.ReasonRunFailed, Message: "backoff limit",
	}}
	f.Status.Runs = []v1alpha1.Run{{
		ID: "77aa000000", Cluster: "alpine", State: v1alpha1.RunFailed, StartTime: ago(time.Hour), RunningTime: ago(time.Hour), CompletionTime: ago(30 * time.Minute), Message: "backoff limit",
		Exit: &v1alpha1.RunExit{Pod: "broken-0-x", Container: "broken", ExitCode: ptr.To[int32](42), Reason: "Error", Message: "no input " + steer},
	}}
}

func silent(f *v1alpha1.FleetMiniCluster) {
	f.Status.Summary = &v1alpha1.Summary{Pods: "4/4", Members: "alpine"}
	f.Status.Runs = []v1alpha1.Run{{ID: "50de000000", Cluster: "alpine", State: v1alpha1.RunRunning, StartTime: ago(time.Hour), RunningTime: ago(time.Hour)}}
	f.Status.Clusters = []v1alpha1.ClusterStatus{{
		Name: "alpine", Sync: v1alpha1.SyncUnknown, Health: v1alpha1.HealthUnknown, Run: "50de000000", State: v1alpha1.RunRunning,
		Pods: v1alpha1.PodCounts{Desired: 4, Active: 4, Ready: 4}, LastHeardTime: ago(12 * time.Minute), Reason: v1alpha1.ReasonMemberUnreachable, Message: "alpine cannot be reached",
	}}
}

func source() *v1alpha1.GitSource {
	return &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet", CreationTimestamp: *ago(24 * time.Hour)},
		Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.org/hpc/fleet.git", Path: "production", Interval: metav1.Duration{Duration: time.Minute}},
		Status: v1alpha1.GitSourceStatus{
			Revision: "main@1a2b3c4", Commit: fleetCommit, MiniClusters: 6, ProblemCount: 1,
			Conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProblemsFound, "production/lammps.yaml:9: MiniCluster/lammps: spec.size: must be at least 1"),
				condition(v1alpha1.ConditionPruneBlocked, metav1.ConditionTrue, v1alpha1.ReasonPruneBlocked,
					"revision main@1a2b3c4 no longer declares FleetMiniCluster/a, FleetMiniCluster/b (so many objects at once); nothing was deleted. If that is meant: kubectl -n hpc annotate"),
			},
			Problems: []v1alpha1.FileProblem{{Path: "production/lammps.yaml", Line: 9, Object: "MiniCluster/lammps", Field: "spec.size", Message: "must be at least 1" + steer}},
			Commits: []v1alpha1.Commit{
				{Hash: fleetCommit, Revision: "main@1a2b3c4", Subject: "Raise the size " + steer, Author: "Ada", Time: ago(5 * time.Minute)},
				{Hash: strings.Repeat("0000000a", 5), Revision: "main@0000000", Subject: "Begin", Author: "Grace", Time: ago(time.Hour)},
			},
		},
	}
}

func member(name string, edits ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}}}
	m.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConnected, "connected")}
	for _, edit := range edits {
		edit(m)
	}
	return m
}

func unreachable(m *v1alpha1.MemberCluster) {
	m.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "does not answer: timeout"+steer)}
	m.Status.LastHeardTime = ago(12 * time.Minute)
}

func event(name string, regarding client.Object, kind, reason, note string, seen time.Duration) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name}, EventTime: metav1.MicroTime{Time: noon.Add(-seen)}, Type: "Normal", Reason: reason, Note: note,
		Regarding: corev1.ObjectReference{APIVersion: "minifleet.dev/v1alpha1", Kind: kind, Namespace: "hpc", Name: regarding.GetName()},
	}
}

// fleet is a hub with something of everything.
func fleet() []client.Object {
	lammps, source := lammps(), source()
	foreign := event("pod", lammps, "Pod", "Pulled", "not ours", time.Minute)
	foreign.Regarding.APIVersion = "v1"
	return []client.Object{
		lammps, source,
		fleetMiniCluster("relax", v1alpha1.StateWaiting, waitingFor("alpine", "3 of 4 pods fit; 2 CPU short on node-7", 0, time.Hour)),
		fleetMiniCluster("urgent", v1alpha1.StateWaiting, waitingFor("alpine", "1 of 4 pods fits; 30 CPU short on node-7", 5, time.Minute)),
		fleetMiniCluster("done", v1alpha1.StateSucceeded, why(metav1.ConditionTrue, v1alpha1.ReasonRunSucceeded, "succeeded on alpine"), holds(v1alpha1.ConditionComplete)),
		fleetMiniCluster("broken", v1alpha1.StateFailed, why(metav1.ConditionFalse, v1alpha1.ReasonRunFailed, "alpine: pod broken-0-x, container broken, exit code 42: no input"), holds(v1alpha1.ConditionFailed), failed),
		fleetMiniCluster("lost", v1alpha1.StateUnknown, why(metav1.ConditionUnknown, v1alpha1.ReasonMemberUnreachable, "alpine cannot be reached"), silent),
		fleetMiniCluster("held", v1alpha1.StateSuspended, why(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "held by hand"), func(f *v1alpha1.FleetMiniCluster) {
			f.Annotations[v1alpha1.AnnotationHold] = "true"
		}),
		fleetMiniCluster("new", ""),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}},
		member("alpine", unreachable), member("basalt"), member("cinder", func(m *v1alpha1.MemberCluster) { m.Spec.Suspend = true }),
		event("b", lammps, "FleetMiniCluster", "RunStarted", "run 3f2a000000 on alpine has started"+steer, 3*time.Minute),
		event("a", lammps, "FleetMiniCluster", "Placed", "on alpine, basalt", 4*time.Minute),
		event("c", source, "GitSource", "RevisionApplied", "revision main@1a2b3c4", 5*time.Minute),
		foreign,
	}
}

// ofTenant waits for room in another namespace, with a priority that is no concern of the first.
func ofTenant() *v1alpha1.FleetMiniCluster {
	f := fleetMiniCluster("fold", v1alpha1.StateWaiting, waitingFor("alpine", "quota exceeded: it asks for 1 run", 1000, time.Minute))
	f.Namespace = "physics"
	return f
}

func ofHub() []client.Object {
	var out []client.Object
	for _, kind := range kinds {
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: kind + ".minifleet.dev"},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true}}},
			Status:     apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}},
		})
	}
	out = append(out, admissionPolicy()...)
	return append(out, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: v1alpha1.ControllerLease("")},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("controller-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: noon.Add(-5 * time.Second)},
		},
	})
}

// admissionPolicy is that of config/policy, and its binding.
func admissionPolicy() []client.Object {
	p, b := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(policy.GitSourceAllow), 4096)
	if err := errors.Join(documents.Decode(p), documents.Decode(b)); err != nil {
		panic(err)
	}
	return []client.Object{p, b}
}

// ofOperator is the role that OLM adds to Kubernetes' own role admin.
func ofOperator() client.Object {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gitsources.minifleet.dev-v1alpha1-admin", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"minifleet.dev"}, Resources: []string{"gitsources"}}},
	}
}

// scene is what a command line meets.
type scene struct {
	objects []client.Object
	funcs   interceptor.Funcs
	env     map[string]string
	stdin   string
	config  *rest.Config
	program string
	// edit changes the environment after all else.
	edit func(*environment)
}

func fakeHub(t *testing.T, s scene) client.WithWatch {
	t.Helper()
	by := func(field func(*eventsv1.Event) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{field(o.(*eventsv1.Event))} }
	}
	c := fake.NewClientBuilder().WithScheme(hubScheme()).WithObjects(s.objects...).
		WithStatusSubresource(&v1alpha1.FleetMiniCluster{}, &v1alpha1.GitSource{}, &v1alpha1.MemberCluster{}).
		WithIndex(&eventsv1.Event{}, "regarding.kind", by(func(e *eventsv1.Event) string { return e.Regarding.Kind })).
		WithIndex(&eventsv1.Event{}, "regarding.name", by(func(e *eventsv1.Event) string { return e.Regarding.Name })).Build()
	return interceptor.NewClient(c, s.funcs)
}

// play runs a command line, and returns all that can be seen of it, and the hub after it.
func play(t *testing.T, s scene, args ...string) (code int, stdout, stderr string, hub client.WithWatch) {
	t.Helper()
	var out, errs bytes.Buffer
	program := "minifleet"
	if s.program != "" {
		program = s.program
	}
	env := newEnvironment(program, strings.NewReader(s.stdin), &out, &errs)
	hub = fakeHub(t, s)
	env.getenv = func(name string) string {
		if value, set := s.env[name]; set || name != "LANG" {
			return value
		}
		return "en_US.UTF-8"
	}
	env.now = func() time.Time { return noon }
	env.wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	env.browse = func(context.Context, string) error { t.Error("no terminal, and yet a browser"); return nil }
	env.connect = func(flags *genericclioptions.ConfigFlags) (*hubClient, error) {
		namespace := "hpc"
		if flags.Namespace != nil && *flags.Namespace != "" {
			namespace = *flags.Namespace
		}
		config := s.config
		if config == nil {
			config = &rest.Config{BearerToken: "of-kubeconfig"}
		}
		return &hubClient{client: hub, config: config, namespace: namespace}, nil
	}
	if s.edit != nil {
		s.edit(env)
	}
	code = run(env, args)
	return code, out.String(), errs.String(), hub
}

// golden compares with a file, which -update writes anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", strings.ReplaceAll(name, " ", "-")+".txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// forbidden answers everything as an API server does where somebody has no right.
func forbidden() interceptor.Funcs {
	deny := func(what string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "minifleet.dev", Resource: "fleetminiclusters"}, what, nil)
	}
	return interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return deny(key.Name)
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return deny("")
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return deny(o.GetName())
		},
	}
}

// allowing answers reviews of rights: all but those of these verbs.
func allowing(denied ...string) interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return c.Create(ctx, o, opts...)
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = true
		for _, d := range denied {
			if d == a.Verb+" "+a.Resource {
				review.Status.Allowed = false
			}
		}
		return nil
	}}
}
