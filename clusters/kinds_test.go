package clusters

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// scopeOfRole is what a role is for.
type scopeOfRole string

const (
	forAll      scopeOfRole = "all namespaces"
	forOne      scopeOfRole = "one namespace"
	besideThose scopeOfRole = "beside roles for one"
)

// rolesOf are the verbs that the table of kinds takes, by GROUP/RESOURCE and, for a single object, /NAME.
func rolesOf(scope scopeOfRole) map[string][]string {
	out := map[string][]string{}
	for _, k := range owned {
		if scope == besideThose {
			break
		}
		out[k.gvk.Group+"/"+resourceOf(k.gvk)] = slices.Sorted(slices.Values(k.verb))
	}
	for _, o := range others {
		key, verbs := o.gvk.Group+"/"+resourceOf(o.gvk), o.all
		if o.sub != "" {
			key += "/" + o.sub
		}
		if o.name != "" {
			key += "/" + o.name
		}
		switch scope {
		case forOne:
			verbs = o.confined
		case besideThose:
			verbs = o.with
		case forAll:
		}
		if len(verbs) > 0 {
			out[key] = slices.Sorted(slices.Values(verbs))
		}
	}
	return out
}

// The roles that administrators are given allow what is done, and no more.
func TestRolesAllowWhatIsDone(t *testing.T) {
	for file, scope := range map[string]scopeOfRole{
		"cluster/role.yaml": forAll, "namespaced/role.yaml": forOne, "namespaces/role.yaml": forOne, "namespaces/identity.yaml": besideThose,
	} {
		t.Run(file, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("..", "config", "member", file))
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(string(body), "\n---\n") // the binding follows
			var role rbacv1.ClusterRole                        // a Role has the same rules
			if err := yaml.Unmarshal([]byte(text), &role); err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					key := strings.Join(append([]string{rule.APIGroups[0], resource}, rule.ResourceNames...), "/")
					got[key] = slices.Sorted(slices.Values(rule.Verbs))
				}
			}
			if diff := cmp.Diff(rolesOf(scope), got); diff != "" {
				t.Errorf("-table +role:\n%s", diff)
			}
		})
	}
}

func TestOwnedKinds(t *testing.T) {
	mapper := restMapper()
	objects := OwnedKinds()
	for i, k := range owned {
		if gvk, err := apiutil.GVKForObject(objects[i], scheme.Scheme); err != nil || gvk != k.gvk {
			t.Errorf("%s: its object is of %s: %v", k.gvk.Kind, gvk, err)
		}
		if gvk, err := apiutil.GVKForObject(k.list(), scheme.Scheme); err != nil || gvk.Kind != k.gvk.Kind+"List" {
			t.Errorf("%s: its list is of %s: %v", k.gvk.Kind, gvk, err)
		}
		if m, err := mapper.RESTMapping(k.gvk.GroupKind(), k.gvk.Version); err != nil || m.Resource.Resource != resourceOf(k.gvk) {
			t.Errorf("%s is mapped to %+v: %v", k.gvk.Kind, m, err)
		}
	}
}

// A refusal of what a cache lives on casts doubt on the connection, whatever the kind: the cache would grow old in
// silence.
func TestRefusedCachesCastDoubt(t *testing.T) {
	for _, k := range owned {
		prefix := "/api/v1/"
		if k.gvk.Group != "" {
			prefix = "/apis/" + k.gvk.Group + "/v1/"
		}
		for name, c := range map[string]struct {
			path  string
			code  int
			doubt bool
		}{
			"refused":            {resourceOf(k.gvk) + "?watch=true", http.StatusForbidden, true},
			"refused, confined":  {"namespaces/n/" + resourceOf(k.gvk), http.StatusForbidden, true},
			"not found":          {resourceOf(k.gvk), http.StatusNotFound, true},
			"an old version":     {resourceOf(k.gvk), http.StatusGone, false},
			"too many requests":  {resourceOf(k.gvk), http.StatusTooManyRequests, false},
			"allowed":            {resourceOf(k.gvk), http.StatusOK, false},
			"a refused object":   {"namespaces/n/" + resourceOf(k.gvk) + "/o", http.StatusForbidden, false},
			"of somebody else's": {"namespaces/n/endpoints", http.StatusForbidden, false},
		} {
			t.Run(k.gvk.Kind+" "+name, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.code) }))
				defer server.Close()
				l, client := observed(server.Client().Transport)
				resp, err := client.Do(get(t, t.Context(), server.URL+prefix+c.path))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if l.doubted() != c.doubt {
					t.Errorf("doubt: %t", l.doubted())
				}
			})
		}
	}
}
