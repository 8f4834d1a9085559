package cli

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/members"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// administered is a hub with members, the first two of which have been joined.
func administered() []client.Object {
	joined := func(m *v1alpha1.MemberCluster) {
		m.Annotations = map[string]string{members.AnnotationJoined: "/" + m.Name}
	}
	capacity := func(nodes int32, cpu, memory, gpus string) func(*v1alpha1.MemberCluster) {
		return func(m *v1alpha1.MemberCluster) {
			m.Status.Version = "v1.36.3"
			m.Status.Capacity = &v1alpha1.MemberCapacity{Nodes: nodes, CPU: cpu, Memory: memory, GPUs: gpus}
		}
	}
	drained := func(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.MemberCluster) {
		return func(m *v1alpha1.MemberCluster) {
			m.Annotations = map[string]string{v1alpha1.AnnotationDrain: "true"}
			meta.SetStatusCondition(&m.Status.Conditions, condition(v1alpha1.ConditionDrained, status, reason, message))
		}
	}
	labelled := func(m *v1alpha1.MemberCluster) { m.Labels = map[string]string{"site": "north", "gpu": "true"} }
	return []client.Object{
		namespace("minifleet-system"), namespace("kube-system"), lammps(),
		member("alpine", joined, labelled, capacity(3, "10/24", "1Gi/3Gi", "1/2")),
		member("basalt", joined, capacity(2, "6/96", "100Gi/384Gi", "")),
		member("cinder", capacity(1, "2/8", "1Gi/16Gi", ""), unreachable),
		member("dune", func(m *v1alpha1.MemberCluster) { m.Spec.Suspend = true }),
		member("esker", drained(metav1.ConditionTrue, v1alpha1.ReasonDrained, "no run is live")),
		member("fjord", drained(metav1.ConditionFalse, v1alpha1.ReasonRunsLive, "1 run is live: hpc/lammps (run 3f2a000000); being stopped now")),
	}
}

// connecting is a hub that connects to every new member.
func connecting() interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if err := c.Create(ctx, obj, opts...); err != nil {
			return err
		}
		m, ok := obj.(*v1alpha1.MemberCluster)
		if !ok {
			return nil
		}
		now := m.DeepCopy()
		now.Status.Version = "v1.36.3"
		now.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConnected, "connected")}
		return c.Status().Update(ctx, now)
	}}
}

// issuing is a member that fills in tokens.
func issuing() interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if s, ok := obj.(*corev1.Secret); ok && s.Type == corev1.SecretTypeServiceAccountToken {
			s.Data = map[string][]byte{"token": []byte("secret-token"), "ca.crt": []byte("cluster CA")}
		}
		return c.Create(ctx, obj, opts...)
	}}
}

// reaching gives a command line this member.
func reaching(t *testing.T, funcs interceptor.Funcs) func(*environment) {
	t.Helper()
	kubeSystem := namespace("kube-system")
	kubeSystem.UID = "of-granite"
	c := memberClient{fakeHub(t, scene{objects: []client.Object{kubeSystem}, funcs: funcs})}
	return func(env *environment) {
		env.connectMember = func(memberFlags) (client.Client, *rest.Config, error) {
			return c, &rest.Config{Host: "https://member.example.org:6443"}, nil
		}
		env.useMember = func(*rest.Config) (client.Client, error) { return c, nil }
	}
}

func TestClusterGolden(t *testing.T) {
	hub := func(edit func(*environment)) scene {
		return scene{objects: administered(), funcs: connecting(), edit: edit}
	}
	plain := hub(nil)
	cases := map[string]struct {
		scene scene
		args  []string
	}{
		"list":              {plain, []string{"list"}},
		"list wide":         {plain, []string{"list", "-o", "wide"}},
		"list name":         {plain, []string{"list", "-o", "name"}},
		"list nothing":      {scene{program: "kubectl minifleet"}, []string{"list"}},
		"cordon":            {plain, []string{"cordon", "alpine"}},
		"cordon again":      {plain, []string{"cordon", "member/dune"}},
		"cordon dry":        {plain, []string{"cordon", "basalt", "--dry-run"}},
		"cordon name":       {plain, []string{"cordon", "basalt", "-o", "name"}},
		"uncordon":          {plain, []string{"uncordon", "dune"}},
		"uncordon used":     {plain, []string{"uncordon", "basalt"}},
		"drain":             {plain, []string{"drain", "esker"}},
		"drain dry":         {plain, []string{"drain", "alpine", "--dry-run"}},
		"drain too long":    {plain, []string{"drain", "fjord", "--timeout", "1ms"}},
		"drain nobody":      {scene{program: "kubectl minifleet"}, []string{"drain", "none"}},
		"join":              {hub(reaching(t, issuing())), []string{"join", "granite", "--member-context", "admin@granite", "--hub-namespaces", "hpc,climate", "--labels", "site=south,gpu=true"}},
		"join refused":      {hub(reaching(t, refusing())), []string{"join", "granite", "--member-context", "admin@granite", "--hub-namespaces", "hpc,climate"}},
		"remove":            {plain, []string{"remove", "basalt"}},
		"remove dry":        {plain, []string{"remove", "alpine", "--policy", "Drain", "--dry-run"}},
		"remove an orphan":  {plain, []string{"remove", "alpine", "--policy", "Orphan", "--dry-run"}},
		"remove nobody dry": {plain, []string{"remove", "none", "--dry-run"}},
		"remove nobody":     {plain, []string{"remove", "none"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"cluster"}, c.args...)
			code, stdout, stderr, _ := play(t, c.scene, args...)
			golden(t, "cluster "+name, transcript(args, code, stdout, stderr))
			if strings.Contains(stdout+stderr, "secret-token") {
				t.Error("prints the token")
			}
		})
	}
}

// inventoried are a hub's objects, with the clusters that Argo CD and Cluster API know there.
func inventoried(t *testing.T) []client.Object {
	t.Helper()
	argo := func(secret, name, server, config string, labels map[string]string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: secret, Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"}}}
		maps.Copy(s.Labels, labels)
		s.Data = map[string][]byte{"name": []byte(name), "server": []byte(server), "config": []byte(config)}
		return s
	}
	const token = `{"bearerToken": "secret-token-of-argo-cd", "tlsClientConfig": {"insecure": false}}`
	capi := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "granite-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "granite"}},
		Type:       "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte(strings.Replace(nobody, "127.0.0.1:1", "granite.example.org:6443", 1))},
	}
	return append(administered(), capi,
		argo("granite", "granite", "https://granite.example.org:6443", token, map[string]string{"site": "south", "gpu": "false"}),
		argo("here", "in-cluster", "https://kubernetes.default.svc", `{"tlsClientConfig": {"insecure": false}}`, nil),
		argo("eks", "onyx", "https://onyx.example.org", `{"awsAuthConfig": {"clusterName": "onyx"}}`, nil),
		argo("steered", "prod "+steer, "https://prod.example.org", token, nil),
		argo("gneiss", "gneiss", "https://gneiss.example.org", `{"bearerToken": "secret-token", "tlsClientConfig": {"insecure": true}}`, nil))
}

func TestClusterJoinFromGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"join from argocd":         {"join", "granite", "--from", "argocd", "--hub-namespaces", "hpc", "--copy-labels", "--labels", "gpu=true"},
		"join from capi":           {"join", "granite", "--from", "capi", "--hub-namespaces", "hpc"},
		"join from argocd refused": {"join", "onyx", "--from", "argocd", "--hub-namespaces", "hpc"},
		"join from argocd unknown": {"join", "basalt", "--from", "argocd", "--hub-namespaces", "hpc"},
		"join all dry":             {"join", "--from", "argocd", "--all", "--dry-run"},
		"join all":                 {"join", "--from", "argocd", "--all", "--hub-namespaces", "hpc"},
		"join all of nothing":      {"join", "--from", "capi", "--from-namespace", "none", "--all", "--dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"cluster"}, args...)
			code, stdout, stderr, hub := play(t, scene{objects: inventoried(t), funcs: connecting(), edit: reaching(t, issuing())}, args...)
			golden(t, "cluster "+name, transcript(args, code, stdout, stderr))
			if strings.Contains(stdout+stderr, "secret-token") {
				t.Error("prints a token")
			}
			var secret corev1.Secret
			if hub.Get(t.Context(), client.ObjectKey{Namespace: "minifleet-system", Name: "granite"}, &secret) == nil && strings.Contains(string(secret.Data["kubeconfig"]), "argo-cd") {
				t.Error("the hub has got the credentials of Argo CD")
			}
			m := &v1alpha1.MemberCluster{}
			if name == "join from argocd" && (hub.Get(t.Context(), client.ObjectKey{Name: "granite"}, m) != nil || m.Labels["gpu"] != "true" || m.Labels["site"] != "south" || len(m.Labels) != 2) {
				t.Errorf("labels %v", m.Labels)
			}
		})
	}
}

// refusing is a member that lets nobody create ClusterRoles.
func refusing() interceptor.Funcs {
	funcs := issuing()
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if _, ok := obj.(*rbacv1.ClusterRole); ok {
			return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, obj.GetName(), errors.New("no"))
		}
		return create(ctx, c, obj, opts...)
	}
	return funcs
}

func TestClusterDryRunOfJoin(t *testing.T) {
	code, out, errs, _ := play(t, scene{objects: administered(), edit: reaching(t, issuing())}, "cluster", "join", "granite", "--member-context", "c", "--hub-namespaces", "*", "--dry-run")
	for _, want := range []string{"# on the member", "kind: ClusterRole", "# on the hub", "token: REDACTED", "kind: MemberCluster"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in %s%s", code, want, out, errs)
		}
	}
}

// A kubeconfig for a server that nobody listens at.
const nobody = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`

func TestClusterErrors(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	away := func(env *environment) { env.connect = connect }
	hub := []string{"--kubeconfig", kubeconfig}
	to := func(args ...string) []string { return append(args, hub...) }
	cases := map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"nothing":                 {nil, exitOK, "join", ""},
		"of what":                 {[]string{"x"}, exitInvalid, "", "x"},
		"help":                    {[]string{"join", "--help"}, exitOK, "--namespace-only", ""},
		"join nobody":             {to("join", "--member-context", "c"), exitInvalid, "", "name a member"},
		"join two":                {to("join", "a", "b"), exitInvalid, "", `takes no argument "b"`},
		"a name that cannot be":   {to("join", "Alpine!", "--member-context", "c"), exitInvalid, "", "is no name"},
		"join what":               {to("join", "a"), exitInvalid, "", "--member-context"},
		"no such context":         {to("join", "a", "--member-kubeconfig", kubeconfig, "--member-context", "x"), exitInvalid, "", "no connection to the member"},
		"no such kubeconfig":      {to("join", "a", "--member-kubeconfig", "testdata/none"), exitInvalid, "", "no connection to the member"},
		"a server without TLS":    {to("join", "a", "--member-kubeconfig", kubeconfig, "--server", "http://a"), exitInvalid, "", "must be an https:// URL"},
		"a name of no server":     {to("join", "a", "--member-kubeconfig", kubeconfig, "--server-name", "a"), exitInvalid, "", "say besides with --server"},
		"two ways to say who":     {to("join", "a", "--member-kubeconfig", kubeconfig, "--hub-namespaces", "*", "--hub-namespace-selector", "a=b"), exitInvalid, "", "not both"},
		"a selector that is none": {to("join", "a", "--member-kubeconfig", kubeconfig, "--hub-namespace-selector", "a in b"), exitInvalid, "", "--hub-namespace-selector"},
		"from where":              {to("join", "a", "--from", "rancher"), exitInvalid, "", "none of kubeconfig, capi, argocd"},
		"from two places":         {to("join", "a", "--from", "capi", "--member-context", "c"), exitInvalid, "", "not both"},
		"from nothing":            {to("join", "a", "--all"), exitInvalid, "", `takes no argument "a"`},
		"all of a kubeconfig":     {to("join", "--all"), exitInvalid, "", "--from capi and --from argocd"},
		"all at one address":      {to("join", "--all", "--from", "argocd", "--server", "https://a"), exitInvalid, "", "not for --all"},
		"labels that are none":    {to("join", "a", "--labels", "x"), exitInvalid, "", "must be formatted as key=value"},
		"a hub that is away":      {to("list"), exitFailed, "", "the hub does not answer"},
		"no hub":                  {[]string{"list", "--kubeconfig", "testdata/none"}, exitInvalid, "", "no connection to a hub"},
		"no namespace":            {to("list", "-n", "hpc"), exitInvalid, "", "unknown shorthand flag"},
		"an unknown format":       {to("list", "-o", "xml"), exitInvalid, "", "wide, json, yaml, name"},
		"an unknown policy":       {to("remove", "a", "--policy", "Delete"), exitInvalid, "", "Block, Drain, Orphan"},
		"remove from what":        {to("remove", "a", "--member-context", "x"), exitInvalid, "", "no connection to the member"},
		"drain nobody":            {to("drain"), exitInvalid, "", "name a member"},
		"a time that is not one":  {to("drain", "a", "--timeout", "soon"), exitInvalid, "", "invalid argument"},
		"no time":                 {to("drain", "a", "--timeout", "0s"), exitInvalid, "", "--timeout must be more than 0"},
		"cordon on no hub":        {to("cordon", "a"), exitFailed, "", "127.0.0.1:1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs, _ := play(t, scene{edit: away}, append([]string{"cluster"}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}

// What commands write on the hub.
func TestClusterChanges(t *testing.T) {
	cases := map[string]struct {
		args    []string
		suspend bool
		drain   string
	}{
		"cordon":     {[]string{"cordon", "basalt"}, true, ""},
		"cordon dry": {[]string{"cordon", "basalt", "--dry-run"}, false, ""},
		"uncordon":   {[]string{"uncordon", "dune"}, false, ""},
		"undrain":    {[]string{"uncordon", "esker"}, false, ""},
		"drain":      {[]string{"drain", "esker"}, false, "true"},
		"drain dry":  {[]string{"drain", "basalt", "--dry-run"}, false, ""},
		"remove dry": {[]string{"remove", "dune", "--dry-run"}, true, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, stderr, hub := play(t, scene{objects: administered()}, append([]string{"cluster"}, c.args...)...)
			m := &v1alpha1.MemberCluster{}
			if err := hub.Get(t.Context(), client.ObjectKey{Name: c.args[1]}, m); err != nil || code != 0 {
				t.Fatalf("%v, exit code %d: %s", err, code, stderr)
			}
			if m.Spec.Suspend != c.suspend || m.Annotations[v1alpha1.AnnotationDrain] != c.drain {
				t.Errorf("suspend %t, drain %q", m.Spec.Suspend, m.Annotations[v1alpha1.AnnotationDrain])
			}
		})
	}
}

func TestExplainMembers(t *testing.T) {
	var coded exit
	timeout := explainMembers(errors.Join(&members.TimeoutError{Message: "not within 1s"}, errors.New("and more")), "minifleet")
	if !errors.As(timeout, &coded) || coded.code != exitWaitTimeout || timeout.Error() != "not within 1s; and more" {
		t.Errorf("a timeout: %v", timeout)
	}
	var wrong invalid
	if err := explainMembers(&members.InputError{Message: "which?"}, "minifleet"); !errors.As(err, &wrong) {
		t.Errorf("input: %v", err)
	}
	stopped := explainMembers(errors.Join(context.Canceled, errors.New("Secret a stays")), "minifleet")
	if errors.As(stopped, &coded) || errors.As(stopped, &wrong) || stopped.Error() != "interrupted; Secret a stays" {
		t.Errorf("interrupted: %v", stopped)
	}
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("no"))
	if err := explainMembers(ofMember(denied), "minifleet"); !strings.HasSuffix(err.Error(), "ask whoever administers the member for that right") {
		t.Errorf("forbidden: %v", err)
	}
}
