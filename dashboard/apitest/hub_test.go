package apitest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard"
	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/hack/lab"
)

// canary is in everything of a namespace that most may not see.
const canary = "canary"

// people is the namespace of the service accounts that ask.
const people = "people"

// world is a hub with a dashboard, and people with tokens.
type world struct {
	cluster *lab.Cluster
	hub     client.Client
	url     string
	tokens  map[string]string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	started, err := lab.Start(ctx, lab.Options{Dir: t.TempDir(), Env: lab.Hasty, Clusters: []lab.ClusterSpec{{Name: "hub"}}})
	must(t, err)
	t.Cleanup(func() { _ = started.Kill() })
	w := &world{cluster: started.Cluster("hub"), tokens: map[string]string{}}
	if !w.cluster.Owned() {
		t.Skip("the audit log of the hub is needed")
	}
	root, err := lab.RepositoryRoot()
	must(t, err)
	must(t, w.cluster.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")))
	known := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(known))
	must(t, v1alpha1.AddToScheme(known))
	cfg, err := w.cluster.RESTConfig()
	must(t, err)
	cfg.UserAgent = "dashboard-under-test"
	w.hub, err = client.New(cfg, client.Options{Scheme: known})
	must(t, err)
	w.populate(t, root)

	objects, err := cache.New(cfg, cache.Options{Scheme: known})
	must(t, err)
	reviews, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	many := auth.Rate{PerSecond: 1000, Burst: 1000}
	who, err := auth.New(auth.Options{
		Reviews: auth.ReviewsOf(reviews), Now: time.Now, AccessTTL: time.Second, Requests: many, PersonRequests: many, Logins: many,
	})
	must(t, err)
	server := dashboard.New(dashboard.Options{
		Hub: objects, Cache: objects, Config: cfg, Auth: who, Writes: true, Version: "test", Now: time.Now,
		Stream: dashboard.StreamOptions{Recheck: 500 * time.Millisecond},
	})
	go func() { _ = objects.Start(ctx) }()
	go func() { _ = server.Start(ctx) }()
	site := httptest.NewServer(server.Site(http.NotFoundHandler()))
	t.Cleanup(site.Close)
	w.url = site.URL + "/api/v1"
	for deadline := time.Now().Add(time.Minute); w.ask(t, http.MethodGet, "/summary", "root", "").code != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store is not filled")
		}
	}
	return w
}

// populate makes namespaces, objects and people: viewer, editor, and leaver, who will be one no longer, of physics; other
// and newcomer, editors of other namespaces; root, and nobody.
func (w *world) populate(t *testing.T, root string) {
	t.Helper()
	for _, name := range []string{people, "physics", "canary-ns", "empty"} {
		w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, document := range strings.Split(read(t, filepath.Join(root, "config", "rbac", "user_roles.yaml")), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		must(t, yaml.UnmarshalStrict([]byte(document), role))
		w.create(t, role)
	}
	w.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "members"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"minifleet.dev"}, Resources: []string{"memberclusters"}, Verbs: []string{"get", "list"}},
	}})
	w.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "events"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list"}},
	}})
	for who, rights := range map[string][]string{
		"viewer": {"physics/viewer", "/members"}, "editor": {"physics/editor", "physics/events"}, "leaver": {"physics/viewer"},
		"other": {"canary-ns/editor"}, "newcomer": {"empty/editor"}, "root": {"/cluster-admin"}, "nobody": nil,
	} {
		w.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: people, Name: who}})
		for _, right := range rights {
			namespace, role, _ := strings.Cut(right, "/")
			w.bind(t, who, namespace, role)
		}
		w.tokens[who] = w.token(t, who)
	}
	w.tokens["wrong"] = w.tokens["root"] + "x"
	w.create(t, member("alpine"))
	w.create(t, source("physics", "fleet", "main@1a2b3c4"))
	w.create(t, source("canary-ns", "canary-source", "canary@0123456"))
	w.create(t, miniCluster("physics", "lammps", "main@1a2b3c4"))
	w.create(t, miniCluster("canary-ns", "canary-name", "canary@0123456"))
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return string(raw)
}

// create creates an object with its status.
func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	wanted, _ := o.DeepCopyObject().(client.Object)
	must(t, w.hub.Create(t.Context(), o))
	switch wanted := wanted.(type) {
	case *v1alpha1.FleetMiniCluster:
		o.(*v1alpha1.FleetMiniCluster).Status = wanted.Status
	case *v1alpha1.GitSource:
		o.(*v1alpha1.GitSource).Status = wanted.Status
	case *v1alpha1.MemberCluster:
		o.(*v1alpha1.MemberCluster).Status = wanted.Status
	default:
		return
	}
	must(t, w.hub.Status().Update(t.Context(), o))
}

// bind gives a role, in all namespaces where none is named.
func (w *world) bind(t *testing.T, who, namespace, role string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: who + "-" + role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: people, Name: who}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if namespace == "" {
		w.create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
		return
	}
	w.create(t, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
}

// userOf is what the API server calls somebody.
func userOf(who string) string { return "system:serviceaccount:" + people + ":" + who }

func (w *world) token(t *testing.T, who string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: people, Name: who}}
	must(t, w.hub.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   string
}

// ask sends a request as somebody; headers as "Name: value".
func (w *world) ask(t *testing.T, method, path, who, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+w.tokens[who])
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	must(t, err)
	return answer{res.StatusCode, res.Header, string(raw)}
}

var now = metav1.NewTime(time.Now().Truncate(time.Second))

func conditions(all ...string) (out []metav1.Condition) {
	for _, name := range all {
		name, is, _ := strings.Cut(name, "=")
		out = append(out, metav1.Condition{Type: name, Status: metav1.ConditionStatus(is), Reason: "Test", Message: "for a test", LastTransitionTime: now})
	}
	return out
}

func member(name string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: "x"}},
		Status:     v1alpha1.MemberClusterStatus{LastHeardTime: &now, Conditions: conditions("Ready=Unknown")},
	}
}

// fullHash is that of the commit that sources have applied.
const fullHash = "1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d"

func source(namespace, name, revision string) *v1alpha1.GitSource {
	return &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.GitSourceSpec{
			URL: "https://git.example.org/" + name, Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute},
		},
		Status: v1alpha1.GitSourceStatus{
			Revision:   revision,
			Commit:     fullHash,
			Conditions: conditions(v1alpha1.ConditionReady+"=True", v1alpha1.ConditionPruneBlocked+"=True", v1alpha1.ConditionRunsBlocked+"=True"),
		},
	}
}

// miniCluster runs on alpine, which cannot be reached.
func miniCluster(namespace, name, revision string) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: v1alpha1.FleetMiniClusterSpec{
			MiniCluster: fluxv1alpha2.MiniClusterSpec{Size: 4, MaxSize: 8, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "lammps", Command: name}}},
			Placement:   &v1alpha1.PlacementSpec{},
		},
		Status: v1alpha1.FleetMiniClusterStatus{
			State: v1alpha1.StateRunning, Sync: v1alpha1.SyncUnknown, Health: v1alpha1.HealthUnknown, Revision: revision, Digest: "d",
			Conditions: conditions(v1alpha1.ConditionReady + "=Unknown"),
			Placement:  &v1alpha1.PlacementDecision{Digest: "d", Clusters: []string{"alpine"}, Wanted: 1},
			Clusters: []v1alpha1.ClusterStatus{{
				Name: "alpine", Sync: v1alpha1.SyncUnknown, Health: v1alpha1.HealthUnknown, Run: "00000000aa", State: v1alpha1.RunRunning, LastHeardTime: &now,
			}},
			Runs: []v1alpha1.Run{{ID: "00000000aa", Cluster: "alpine", Digest: "d", Revision: revision, State: v1alpha1.RunRunning, StartTime: &now, JobUID: "j"}},
		},
	}
}
