package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/grant"
)

// denial is the error of RBAC.
func denial(user, verb, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "minifleet.dev", Resource: resource}, "a",
		fmt.Errorf("User %q cannot %s resource %q in API group \"minifleet.dev\" in the namespace \"hpc\"", user, verb, resource))
}

const tenant = "system:serviceaccount:hpc:tenant"

// confinedHub answers each verb with an error, or with success.
type confinedHub struct {
	client.Client
	denied map[string]error
	writes atomic.Int64
}

func (h *confinedHub) answer(verb string) error {
	h.writes.Add(1)
	return h.denied[verb]
}

func (h *confinedHub) Create(context.Context, client.Object, ...client.CreateOption) error {
	return h.answer("create")
}

func (h *confinedHub) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return h.answer("update")
}

func (h *confinedHub) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return h.answer("delete")
}

func fleetObject(name string) parse.Object {
	return parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, Path: name + ".yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
}

func TestAnAccountThatLacksRights(t *testing.T) {
	const grantIt = "kubectl -n hpc create rolebinding minifleet-tenant --clusterrole=minifleet-editor --serviceaccount=hpc:tenant"
	for name, tc := range map[string]struct {
		verb     string
		declared []string
		problems []string
		deleted  []string
	}{
		"to create": {"create", []string{"a", "c", "d"}, []string{"a.yaml", "d.yaml"}, nil}, // b is no longer declared, and stays
		"to update": {"update", []string{"c", "d"}, []string{"c.yaml"}, nil},
		"to delete": {"delete", []string{"c", "d"}, []string{"b.yaml"}, nil},
		"nothing":   {"", []string{"c", "d"}, nil, []string{"FleetMiniCluster/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &confinedHub{denied: map[string]error{tc.verb: denial(tenant, tc.verb, "fleetminiclusters")}}
			have := hubOf(onHub("b", "fleet", "b.yaml"), onHub("c", "fleet", "c.yaml"), onHub("e", "other", "e.yaml"))
			var objects []parse.Object
			for _, n := range tc.declared {
				objects = append(objects, fleetObject(n))
			}
			tr := treeOf(objects...)
			done, err := applyTree(t, hub, newSource(), tr, have)
			if err != nil {
				t.Fatal(err)
			}
			deleted, err := prune(t.Context(), hub, planOf(newSource(), tr, have), done)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, p := range append(done.problems, deleted.problems...) {
				paths = append(paths, p.Path)
				for _, part := range []string{tenant + " lacks the verb " + tc.verb + " on fleetminiclusters in namespace hpc", grantIt} {
					if !strings.Contains(p.Message, part) {
						t.Errorf("%q does not say %q", p.Message, part)
					}
				}
			}
			if diff := cmp.Diff([][]string{tc.problems, tc.deleted}, [][]string{paths, deleted.deleted}); diff != "" {
				t.Errorf("problems and what was deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// Where the hub may not act as an account, nothing is applied, and that is said once.
func TestAnAccountThatTheHubMayNotActAs(t *testing.T) {
	for _, verb := range []string{"impersonate", "impersonate:serviceaccount", "impersonate-on:serviceaccount:create"} {
		t.Run(verb, func(t *testing.T) { testMayNotActAs(t, verb) })
	}
}

func testMayNotActAs(t *testing.T, verb string) {
	t.Helper()
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "tenant",
		fmt.Errorf(`User "system:serviceaccount:minifleet-system:minifleet-controller-manager" cannot %s resource "serviceaccounts" in API group "" in the namespace "hpc"`, verb))
	hub := &confinedHub{denied: map[string]error{"create": err, "update": err, "delete": err}}
	var objects []parse.Object
	for i := range 1000 {
		objects = append(objects, fleetObject(fmt.Sprint("m", i)))
	}
	_, got := applyTree(t, hub, newSource(), treeOf(objects...), nil)
	if !isSourceError(got) || reasonOf(got) != v1alpha1.ReasonImpersonationForbidden {
		t.Fatalf("error %v", got)
	}
	want := "spec.serviceAccountName: the hub may not act as a service account of namespace hpc, so nothing was applied, and nothing is deleted: " +
		"kubectl -n hpc create rolebinding minifleet-impersonator --clusterrole=minifleet-impersonator --serviceaccount=minifleet-system:minifleet-controller-manager"
	if got.Error() != want {
		t.Errorf("it says %q", got)
	}
	if n := hub.writes.Load(); n > 3*concurrentWrites {
		t.Errorf("%d objects were tried", n)
	}
	have := hubOf(onHub("a", "fleet", "a.yaml"), onHub("b", "fleet", "b.yaml"), onHub("c", "fleet", "c.yaml"))
	if _, got := prune(t.Context(), hub, planOf(newSource(), treeOf(fleetObject("a"), fleetObject("b")), have), applied{}); reasonOf(got) != v1alpha1.ReasonImpersonationForbidden {
		t.Errorf("error of a prune: %v", got)
	}
}

func TestQuotasAreNotTakenForRights(t *testing.T) {
	hub := &confinedHub{denied: map[string]error{"create": apierrors.NewForbidden(schema.GroupResource{Resource: "fleetminiclusters"}, "a", fmt.Errorf("exceeded quota: few"))}}
	done, err := applyTree(t, hub, newSource(), treeOf(fleetObject("a")), nil)
	if err != nil || done.lacking || len(done.problems) != 1 || strings.Contains(done.problems[0].Message, "rolebinding") {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAsWhomASourceWrites(t *testing.T) {
	var users []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		users = append(users, req.Header.Get("Impersonate-User"))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	own := newHub(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Placement"), meta.RESTScopeNamespace)
	for name, tc := range map[string]struct{ named, standard, user string }{
		"the hub itself":               {"", "", ""},
		"the account of the source":    {"tenant", "", tenant},
		"the default":                  {"", "standard", "system:serviceaccount:hpc:standard"},
		"its own, and not the default": {"tenant", "standard", tenant},
	} {
		t.Run(name, func(t *testing.T) {
			users = nil
			r := &Reconciler{Client: own, Settings: Settings{DefaultServiceAccount: tc.standard},
				Accounts: &Accounts{Config: &rest.Config{Host: server.URL}, Options: client.Options{Scheme: own.Scheme(), Mapper: mapper}}}
			source := newSource()
			source.Spec.ServiceAccountName = tc.named
			to, err := r.writer(source)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := r.writer(source); err != nil || again != to {
				t.Errorf("another client the second time: %v", err)
			}
			if tc.user == "" {
				if to != client.Writer(own) {
					t.Error("not the hub's own client")
				}
				return
			}
			p := &v1alpha1.Placement{}
			p.Namespace, p.Name = "hpc", "p"
			if err := to.Create(t.Context(), p); !apierrors.IsForbidden(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff([]string{tc.user}, users); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnencryptedWhereSomethingIsAllowed(t *testing.T) {
	allows := grant.Namespace{Name: "hpc", Permissions: []v1alpha1.Permission{"HostPath"}}
	for name, tc := range map[string]struct {
		url       string
		allow     []v1alpha1.Permission
		namespace grant.Namespace
		says      string
	}{
		"https, allowed everything":  {"https://git.example.org/x", []v1alpha1.Permission{"HostPath"}, allows, ""},
		"http, nothing is allowed":   {"http://git.example.org/x", nil, grant.Namespace{}, ""},
		"http, the source allows":    {"http://git.example.org/x", []v1alpha1.Permission{"HostPath"}, grant.Namespace{}, "remove spec.allow"},
		"http, the namespace allows": {"http://127.0.0.1/x", nil, allows, "minifleet.dev/allow"},
		"in capitals":                {"HTTP://git.example.org/x", nil, allows, "minifleet.dev/allow"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.Spec.URL, source.Spec.Allow = tc.url, tc.allow
			err := checkEncrypted(source, tc.namespace)
			if tc.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if reasonOf(err) != fetch.ReasonURLRefused || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "use https://") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The time of a source is that of everything it does, and what it has done in that time stays done.
func TestTheTimeoutCoversWhatIsApplied(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hub := &cancellingHub{cancel: cancel}
	var objects []parse.Object
	for i := range 1000 {
		objects = append(objects, fleetObject(fmt.Sprint("m", i)))
	}
	tr := treeOf(objects...)
	done, err := apply(ctx, hub, hub, newSource(), planOf(newSource(), tr, nil))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if n := len(done.changed); n < 10 || n > 10+2*concurrentWrites {
		t.Errorf("%d objects were applied", n)
	}
	message := timedOut(time.Minute, progress{tree: tr, applied: done})
	if reasonOf(message) != v1alpha1.ReasonTimedOut || !strings.Contains(message.Error(), "of its 1000 objects were applied") {
		t.Errorf("it says %v", message)
	}
}

// cancellingHub ends the time with the tenth object.
type cancellingHub struct {
	client.Client
	cancel context.CancelFunc
	count  atomic.Int64
}

func (h *cancellingHub) Create(context.Context, client.Object, ...client.CreateOption) error {
	if h.count.Add(1) == 10 {
		h.cancel()
	}
	return nil
}

func TestTreesAreForgottenWhereTheyTakeTooMuch(t *testing.T) {
	cache := &treeCache{most: 100}
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "hpc", Name: name} }
	for _, name := range []string{"a", "b", "c"} {
		cache.put(key(name), &tree{size: 40})
		cache.get(key("a"))
	}
	if cache.get(key("a")) == nil || cache.get(key("b")) != nil || cache.get(key("c")) == nil || cache.size != 80 {
		t.Errorf("%d bytes of %v", cache.size, cache.trees)
	}
	cache.put(key("a"), &tree{size: 10})
	cache.forget(key("c"))
	cache.forget(key("none"))
	if cache.size != 10 || cache.order.Len() != 1 {
		t.Errorf("%d bytes, %d trees", cache.size, cache.order.Len())
	}
	cache.put(key("huge"), &tree{size: 1000})
	if cache.get(key("huge")) == nil || cache.size != 1000 {
		t.Errorf("one that is too large alone: %d bytes", cache.size)
	}
}

func manifestOf(name string) gitsource.File {
	return gitsource.File{Path: name + ".yaml", Data: []byte("apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: " + name + "}\nspec: {clusterSelector: {}}\n")}
}

// A repository that is over a limit is refused as a whole: what was applied before stays.
func TestALimitIsAnErrorOfTheSource(t *testing.T) {
	fetched := &fetch.Result{Commit: fullCommit, Revision: "main@0123456", Files: nil}
	files := func(n int) *fetch.Result {
		out := *fetched
		for i := range n {
			out.Files = append(out.Files, manifestOf(fmt.Sprint("p", i)))
		}
		return &out
	}
	limits := budget.Limits{MaxObjects: 3}
	if tr, err := newTree(budget.New(t.Context(), limits, nil), "hpc", files(3), "", nil, nil); err != nil || len(tr.parsed.Objects) != 3 || tr.size == 0 {
		t.Errorf("within the limit: %v, %v", tr, err)
	}
	_, err := newTree(budget.New(t.Context(), limits, nil), "hpc", files(4), "", nil, nil)
	if !isSourceError(err) || reasonOf(err) != fetch.ReasonLimitExceeded {
		t.Errorf("beyond the limit: %v", err)
	}
}
