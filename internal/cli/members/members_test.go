package members_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/cli/members"
)

// side is a cluster with what it does by itself.
type side struct {
	client.Client
	mu     sync.Mutex
	writes []string // VERB KIND/NAME
	// refuse fails writes.
	refuse func(verb string, obj client.Object) error
	// react is called after each creation.
	react func(ctx context.Context, c client.Client, obj client.Object) error
}

func newSide(t *testing.T, uid types.UID, objects ...client.Object) *side {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &side{}
	note := func(verb string, obj client.Object) error {
		gvk, _ := apiutil.GVKForObject(obj, scheme)
		s.mu.Lock()
		s.writes = append(s.writes, verb+" "+gvk.Kind+"/"+obj.GetName())
		s.mu.Unlock()
		if s.refuse != nil {
			return s.refuse(verb, obj)
		}
		return nil
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	manager := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: members.DefaultManagerNamespace, UID: uid + "-manager"}}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, system, manager)...).
		WithStatusSubresource(&v1alpha1.MemberCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if err := note("create", obj); err != nil {
					return err
				}
				obj.SetUID(types.UID("uid-of-" + obj.GetName()))
				if err := c.Create(ctx, obj, opts...); err != nil || s.react == nil {
					return err
				}
				return s.react(ctx, c, obj)
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				return errors.Join(note("update", obj), c.Update(ctx, obj, opts...))
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if err := note("delete", obj); err != nil {
					return err
				}
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()
	return s
}

// tokens fills in tokens as a cluster does.
func tokens(ctx context.Context, c client.Client, obj client.Object) error {
	s, ok := obj.(*corev1.Secret)
	if !ok || s.Type != corev1.SecretTypeServiceAccountToken {
		return nil
	}
	filled := s.DeepCopy()
	filled.Data = map[string][]byte{"token": []byte("secret-token"), "ca.crt": []byte("cluster CA")}
	return c.Update(ctx, filled)
}

// says is a hub that says this of every new member.
func says(status metav1.ConditionStatus, reason string) func(context.Context, client.Client, client.Object) error {
	return func(ctx context.Context, c client.Client, obj client.Object) error {
		m, ok := obj.(*v1alpha1.MemberCluster)
		if !ok {
			return nil
		}
		now := m.DeepCopy()
		now.Status.Version = "v1.36.3"
		meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "it says so"})
		return c.Status().Update(ctx, now)
	}
}

// scene is a hub and a cluster, and what is told.
type scene struct {
	hub, member *side
	join        members.Join
	told        []string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{hub: newSide(t, "hub"), member: newSide(t, "cluster")}
	s.member.react, s.hub.react = tokens, says(metav1.ConditionTrue, v1alpha1.ReasonConnected)
	s.join = members.Join{
		Hub: s.tell(), Member: members.Member{Client: s.member, Server: "https://member.example.org:6443", CA: []byte("a CA")},
		Name: "alpine", Labels: map[string]string{"site": "north"}, Access: v1alpha1.AllNamespaces(), Timeout: 2 * time.Second,
	}
	return s
}

func (s *scene) tell() members.Hub {
	return members.Hub{Client: s.hub, Namespace: members.DefaultManagerNamespace, Program: "minifleet", Tell: func(format string, args ...any) {
		s.told = append(s.told, fmt.Sprintf(format, args...))
	}}
}

// again is the same join by another call.
func (s *scene) again() *members.Join {
	return &members.Join{
		Hub: s.join.Hub, Member: s.join.Member, Name: s.join.Name, Labels: s.join.Labels, Access: s.join.Access,
		Confined: s.join.Confined, Namespaces: s.join.Namespaces, Timeout: s.join.Timeout,
	}
}

func (s *scene) clear() { s.told, s.hub.writes, s.member.writes = nil, nil, nil }

func get[T client.Object](t *testing.T, c client.Client, namespace, name string, into T) T {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestJoinSomeNamespaces(t *testing.T) {
	s := newScene(t)
	s.join.Namespaces = []string{"hpc", "ml"}
	if err := s.join.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace hpc of the member, which has to exist") {
		t.Errorf("got %v", err)
	}
	for _, name := range s.join.Namespaces {
		if err := s.member.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	before := s.member.left(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range s.join.Namespaces {
		if b := get(t, s.member, name, "minifleet-member", &rbacv1.RoleBinding{}); b.RoleRef.Name != "minifleet-member-namespace" {
			t.Errorf("bound to %+v", b.RoleRef)
		}
	}
	get(t, s.member, "minifleet-member", "minifleet-member-token", &corev1.Secret{})
	if err := s.hub.Delete(t.Context(), get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})); err != nil {
		t.Fatal(err)
	}
	if err := remove(s, func(*members.Remove) {}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.member.left(t)); diff != "" {
		t.Errorf("something stays after a removal:\n%s", diff)
	}
	s.join.Confined = "hpc"
	if err := s.again().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "give one of the two") {
		t.Errorf("got %v", err)
	}
}

func TestJoinWithoutThePolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		told   bool
	}{
		"not wanted": {change: func(s *scene) { s.join.NoPolicy = true }},
		"not allowed": {change: func(s *scene) {
			s.member.refuse = func(_ string, obj client.Object) error {
				if _, is := obj.(*admissionv1.ValidatingAdmissionPolicy); is {
					return apierrors.NewForbidden(admissionv1.Resource("validatingadmissionpolicies"), obj.GetName(), errors.New("no"))
				}
				return nil
			}
		}, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			tc.change(s)
			if err := s.join.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			told := strings.Contains(strings.Join(s.told, "\n"), "ValidatingAdmissionPolicy minifleet-member on the member: not installed")
			if told != tc.told {
				t.Errorf("told %q", s.told)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	s := newScene(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ValidatingAdmissionPolicy minifleet-member on the member: created",
		"ValidatingAdmissionPolicyBinding minifleet-member on the member: created",
		"Namespace minifleet-member on the member: created",
		"ServiceAccount minifleet-member/minifleet-member on the member: created",
		"Secret minifleet-member/minifleet-member-token on the member: created",
		"ClusterRole minifleet-member on the member: created",
		"ClusterRoleBinding minifleet-member on the member: created",
		"Secret minifleet-system/alpine on the hub: created",
		"MemberCluster alpine on the hub: created",
		"member alpine: ready, Kubernetes v1.36.3",
	}
	if diff := cmp.Diff(want, s.told); diff != "" {
		t.Error(diff)
	}
	secret := get(t, s.hub, members.DefaultManagerNamespace, "alpine", &corev1.Secret{})
	config, err := clusters.RESTConfig(secret.Data[v1alpha1.KubeconfigKey])
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://member.example.org:6443" || config.BearerToken != "secret-token" || string(config.CAData) != "a CA" {
		t.Errorf("the kubeconfig leads to %s with CA %q", config.Host, config.CAData)
	}
	m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	if m.Labels["site"] != "north" || m.Spec.KubeconfigSecretRef.Name != "alpine" || m.Spec.Namespace != "" {
		t.Errorf("got %+v", m)
	}
	if strings.Contains(strings.Join(s.told, "\n"), "secret-token") {
		t.Error("the token is told")
	}
}

func TestJoinAgainChangesNothing(t *testing.T) {
	for name, confined := range map[string]string{"all namespaces": "", "one namespace": "site"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if s.join.Confined = confined; confined != "" {
				if err := s.member.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: confined}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.join.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.clear()
			if err := s.again().Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if writes := slices.Concat(s.hub.writes, s.member.writes); len(writes) > 0 {
				t.Errorf("wrote %v", writes)
			}
			for _, line := range s.told[:len(s.told)-1] {
				if !strings.HasSuffix(line, ": unchanged") {
					t.Error(line)
				}
			}
		})
	}
}

func TestJoinPutsRightsAndLabelsRight(t *testing.T) {
	s := newScene(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	role := get(t, s.member, "", "minifleet-member", &rbacv1.ClusterRole{})
	rules := role.Rules
	role.Rules = rules[:1]
	m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	m.Labels = map[string]string{"by": "hand"}
	if err := errors.Join(s.member.Update(t.Context(), role), s.hub.Update(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	s.clear()
	if err := s.again().Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"update ClusterRole/minifleet-member", "update MemberCluster/alpine"}
	if diff := cmp.Diff(want, slices.Concat(s.member.writes, s.hub.writes)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(rules, get(t, s.member, "", "minifleet-member", &rbacv1.ClusterRole{}).Rules); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"by": "hand", "site": "north"}, get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{}).Labels); diff != "" {
		t.Error(diff)
	}
}

// left are the objects of a side that were not there before.
func (s *side) left(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &v1alpha1.MemberClusterList{}, &corev1.NamespaceList{}} {
		if err := s.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		items, _ := meta.ExtractList(list)
		for _, item := range items {
			obj := item.(client.Object)
			if name := obj.GetName(); name != metav1.NamespaceSystem && name != members.DefaultManagerNamespace {
				out = append(out, fmt.Sprintf("%T %s", obj, name))
			}
		}
	}
	return out
}

// A join that fails at any step is undone in full, and one that had succeeded before stays as it was.
func TestJoinIsUndone(t *testing.T) {
	refused := errors.New("refused")
	refuse := func(kind string) func(string, client.Object) error {
		return func(verb string, obj client.Object) error {
			if verb == "create" && fmt.Sprintf("%T", obj) == kind {
				return refused
			}
			return nil
		}
	}
	cases := map[string]struct {
		spoil func(*scene)
		want  string
	}{
		"the role is refused":    {func(s *scene) { s.member.refuse = refuse("*v1.ClusterRole") }, "creating ClusterRole minifleet-member on the member: refused"},
		"the binding is refused": {func(s *scene) { s.member.refuse = refuse("*v1.ClusterRoleBinding") }, "refused"},
		"no token":               {func(s *scene) { s.member.react, s.join.Timeout = nil, 300*time.Millisecond }, "its token controller does that"},
		"replies are lost": {func(s *scene) {
			s.hub.react = func(context.Context, client.Client, client.Object) error { return errors.New("connection reset") }
		}, "connection reset"},
		"the Secret is refused":     {func(s *scene) { s.hub.refuse = refuse("*v1.Secret") }, "creating Secret minifleet-system/alpine on the hub: refused"},
		"the member is refused":     {func(s *scene) { s.hub.refuse = refuse("*v1alpha1.MemberCluster") }, "refused"},
		"the hub cannot reach it":   {func(s *scene) { s.hub.react, s.join.Timeout = says("Unknown", "Unreachable"), 300*time.Millisecond }, "not ready: Unreachable: it says so"},
		"the hub says nothing":      {func(s *scene) { s.hub.react, s.join.Timeout = nil, 300*time.Millisecond }, "does its controller run?"},
		"it is a member already":    {func(s *scene) { s.hub.react = says("False", v1alpha1.ReasonDuplicateCluster) }, "cannot be used: DuplicateCluster"},
		"its certificate is wrong":  {func(s *scene) { s.hub.react = says("False", v1alpha1.ReasonCertificateUntrusted) }, "cannot be used: CertificateUntrusted"},
		"the hub cannot use it":     {func(s *scene) { s.join.Member.Server = "http://member" }, "give another with --server"},
		"no such namespace":         {func(s *scene) { s.join.Confined = "absent" }, "namespace absent of the member"},
		"no MiniFleet on the hub":   {func(s *scene) { s.join.Hub.Namespace = "absent" }, "is MiniFleet installed there?"},
		"somebody interrupts it":    {func(s *scene) { s.hub.react = says("Unknown", "Connecting") }, "context canceled"},
		"it is there as another":    {func(s *scene) { registered(s, "other", "cluster", "") }, "the cluster is a member already, as other"},
		"the name is another's":     {func(s *scene) { registered(s, "alpine", "elsewhere", "hub-manager/alpine") }, "is another cluster"},
		"the name is taken by hand": {func(s *scene) { registered(s, "alpine", "", "") }, "that no join has made"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.spoil(s)
			before := slices.Concat(s.hub.left(t), s.member.left(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.want == "context canceled" {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
			err := s.join.Run(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v", err)
			}
			var timeout *members.TimeoutError
			if errors.As(err, &timeout) != (s.join.Timeout < time.Second) {
				t.Errorf("%v: is one of time: %t", err, errors.As(err, &timeout))
			}
			if diff := cmp.Diff(before, slices.Concat(s.hub.left(t), s.member.left(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func registered(s *scene, name, uid, joined string) {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if joined != "" {
		m.Annotations = map[string]string{members.AnnotationJoined: joined}
	}
	react := s.hub.react
	s.hub.react = nil
	if err := s.hub.Create(context.Background(), m); err != nil {
		panic(err)
	}
	m.Status.ClusterUID = uid
	if err := s.hub.Status().Update(context.Background(), m); err != nil {
		panic(err)
	}
	s.hub.react = react
}

func TestFailedSecondJoinUndoesNothing(t *testing.T) {
	s := newScene(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := slices.Concat(s.hub.left(t), s.member.left(t))
	m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: "Unknown", Reason: "Unreachable"})
	if err := s.hub.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	second := s.again()
	second.Timeout = 300 * time.Millisecond
	var timeout *members.TimeoutError
	if err := second.Run(t.Context()); !errors.As(err, &timeout) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, slices.Concat(s.hub.left(t), s.member.left(t))); diff != "" {
		t.Error(diff)
	}
}

func TestJoinOfWhatAnotherHubHasJoined(t *testing.T) {
	s := newScene(t)
	other := newScene(t)
	other.hub = newSide(t, "other-hub")
	other.hub.react = says(metav1.ConditionTrue, v1alpha1.ReasonConnected)
	other.member, other.join.Member.Client = s.member, s.member
	other.join.Hub = other.tell()
	if err := other.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := s.member.left(t)
	if err := s.join.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "belongs to another hub") {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.member.left(t)); diff != "" {
		t.Error(diff)
	}
}

func TestDryRun(t *testing.T) {
	s := newScene(t)
	var out bytes.Buffer
	if err := s.join.DryRun(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if writes := slices.Concat(s.hub.writes, s.member.writes); len(writes) > 0 {
		t.Errorf("wrote %v", writes)
	}
	rest := out.String()
	for _, want := range []string{"# on the member", "kind: Namespace", "kind: ServiceAccount", "kind: ClusterRole", "pods/log", "# on the hub", "kind: Secret", "token: REDACTED", "kind: MemberCluster", "site: north", "name: alpine"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q in its place in\n%s", want, out.String())
		}
		rest = after
	}
}

func remove(s *scene, change ...func(*members.Remove)) *members.Remove {
	r := &members.Remove{Hub: s.join.Hub, Name: "alpine", Timeout: 2 * time.Second, Member: s.member}
	for _, f := range change {
		f(r)
	}
	return r
}

func TestRemove(t *testing.T) {
	for name, confined := range map[string]string{"all namespaces": "", "one namespace": "site"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if s.join.Confined = confined; confined != "" {
				if err := s.member.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: confined}}); err != nil {
					t.Fatal(err)
				}
			}
			before := slices.Concat(s.hub.left(t), s.member.left(t))
			if err := s.join.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := remove(s).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, slices.Concat(s.hub.left(t), s.member.left(t))); diff != "" {
				t.Error(diff)
			}
			s.clear()
			if err := remove(s, func(r *members.Remove) { r.Confined = confined }).Run(t.Context()); err != nil {
				t.Errorf("a second time: %v", err)
			}
			if writes := slices.Concat(s.hub.writes, s.member.writes); len(writes) > 0 {
				t.Errorf("wrote %v", writes)
			}
		})
	}
}

func TestRemoveKeepsWhatIsNotOurs(t *testing.T) {
	cases := map[string]struct {
		before func(*testing.T, *scene)
		change func(*members.Remove)
		err    string
		left   []string // on both sides
	}{
		"without the member": {change: func(r *members.Remove) { r.Member = nil }, left: []string{
			"*v1.Secret minifleet-member-token", "*v1.ServiceAccount minifleet-member", "*v1.ClusterRole minifleet-member", "*v1.ClusterRoleBinding minifleet-member", "*v1.Namespace minifleet-member",
		}},
		"something is in the namespace": {before: func(t *testing.T, s *scene) {
			if err := s.member.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-member", Name: "theirs"}}); err != nil {
				t.Fatal(err)
			}
		}, left: []string{"*v1.Namespace minifleet-member"}},
		"another cluster": {before: func(t *testing.T, s *scene) {
			m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
			m.Status.ClusterUID = "elsewhere"
			if err := s.hub.Status().Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}, err: "is not member alpine", left: []string{
			"*v1.Secret alpine", "*v1alpha1.MemberCluster alpine", "*v1.Secret minifleet-member-token", "*v1.ServiceAccount minifleet-member", "*v1.ClusterRole minifleet-member", "*v1.ClusterRoleBinding minifleet-member", "*v1.Namespace minifleet-member",
		}},
		"a Secret made by hand": {before: func(t *testing.T, s *scene) {
			secret := get(t, s.hub, members.DefaultManagerNamespace, "alpine", &corev1.Secret{})
			secret.Annotations = nil
			if err := s.hub.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}, left: []string{"*v1.Secret alpine"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := s.join.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				c.before(t, s)
			}
			r := remove(s)
			if c.change != nil {
				c.change(r)
			}
			err := r.Run(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.left, slices.Concat(s.hub.left(t), s.member.left(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A remove that was cut off when the MemberCluster was deleted goes on with the next.
func TestRemoveGoesOn(t *testing.T) {
	s := newScene(t)
	s.join.Confined = "site"
	if err := s.member.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "site"}}); err != nil {
		t.Fatal(err)
	}
	before := slices.Concat(s.hub.left(t), s.member.left(t))
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.hub.Delete(t.Context(), get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})); err != nil {
		t.Fatal(err)
	}
	if err := remove(s, func(r *members.Remove) { r.Confined = "site" }).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, slices.Concat(s.hub.left(t), s.member.left(t))); diff != "" {
		t.Error(diff)
	}
}

func TestRemoveOfNobody(t *testing.T) {
	s := newScene(t)
	var absent *members.NotFoundError
	if err := remove(s, func(r *members.Remove) { r.Member = nil }).Run(t.Context()); !errors.As(err, &absent) {
		t.Errorf("got %v", err)
	}
}

func TestRemoveWaitsForItsPolicy(t *testing.T) {
	s := newScene(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	m.Finalizers = []string{v1alpha1.Finalizer}
	if err := s.hub.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDrained, Status: "False", Reason: v1alpha1.ReasonRunsLive, Message: "1 run is live"})
	if err := s.hub.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	err := remove(s, func(r *members.Remove) { r.Policy, r.Timeout = v1alpha1.DeletionDrain, 300*time.Millisecond }).Run(t.Context())
	var timeout *members.TimeoutError
	if !errors.As(err, &timeout) || !strings.Contains(err.Error(), "RunsLive: 1 run is live") {
		t.Errorf("got %v", err)
	}
	m = get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	if m.Spec.DeletionPolicy != v1alpha1.DeletionDrain || m.DeletionTimestamp.IsZero() {
		t.Errorf("got %+v", m)
	}
	get(t, s.hub, members.DefaultManagerNamespace, "alpine", &corev1.Secret{})
	get(t, s.member, "", "minifleet-member", &rbacv1.ClusterRole{})
}

func TestAwaitDrained(t *testing.T) {
	s := newScene(t)
	if err := s.join.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub := s.join.Hub
	var timeout *members.TimeoutError
	if err := hub.AwaitDrained(t.Context(), "alpine", 300*time.Millisecond); !errors.As(err, &timeout) || !strings.Contains(err.Error(), "stays drained") {
		t.Errorf("not drained: %v", err)
	}
	m := get(t, s.hub, "", "alpine", &v1alpha1.MemberCluster{})
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDrained, Status: "True", Reason: v1alpha1.ReasonDrained, Message: "no run is live"})
	if err := s.hub.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := hub.AwaitDrained(t.Context(), "alpine", time.Second); err != nil {
		t.Errorf("drained: %v", err)
	}
	var absent *members.NotFoundError
	if err := hub.AwaitDrained(t.Context(), "nobody", time.Second); !errors.As(err, &absent) {
		t.Errorf("nobody: %v", err)
	}
}
