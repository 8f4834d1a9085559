package membercluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// registered is a MemberCluster of some age with a cluster UID on record; that is as old, where it is not said.
func registered(name, namespace, uid string, age time.Duration, recorded ...time.Duration) v1alpha1.MemberCluster {
	m := v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(age)}}
	m.Spec.Namespace, m.Status.ClusterUID = namespace, uid
	m.Spec.KubeconfigSecretRef.Name = name
	for _, r := range recorded {
		m.Status.Identity = &v1alpha1.MemberIdentity{Since: ago(r)}
	}
	return m
}

func TestDuplicateOf(t *testing.T) {
	member := registered("m", "team", "cluster", time.Minute)
	everywhere := registered("m", "", "cluster", time.Minute)
	fresh := registered("m", "team", "", 2*time.Hour)
	for name, tc := range map[string]struct {
		member, other v1alpha1.MemberCluster
		want          string
	}{
		"another cluster":              {member, registered("a", "team", "other", time.Hour), ""},
		"earlier":                      {member, registered("z", "team", "cluster", time.Hour), "z"},
		"later":                        {member, registered("a", "team", "cluster", time.Second), ""},
		"at once, first by name":       {member, registered("a", "team", "cluster", time.Minute), "a"},
		"at once, last by name":        {member, registered("z", "team", "cluster", time.Minute), ""},
		"another namespace":            {member, registered("a", "other", "cluster", time.Hour), ""},
		"all namespaces, the other":    {member, registered("a", "", "cluster", time.Hour), "a"},
		"all namespaces, this one":     {everywhere, registered("a", "team", "cluster", time.Hour), "a"},
		"itself":                       {member, member, ""},
		"one that was never contacted": {member, registered("a", "team", "", time.Hour), ""},
		// A member that is registered first, and waits until another is on record to claim its identity.
		"on record, and older by its registration": {registered("m", "team", "cluster", time.Hour, time.Minute), registered("a", "team", "cluster", time.Second, 2*time.Minute), "a"},
		"on record first":                          {registered("m", "team", "cluster", time.Second, time.Hour), registered("a", "team", "cluster", 2*time.Hour, time.Minute), ""},
		"not on record, and older":                 {fresh, registered("a", "team", "cluster", time.Second, time.Second), "a"},
	} {
		got := ""
		if other := duplicateOf(&tc.member, "cluster", []v1alpha1.MemberCluster{tc.member, tc.other}); other != nil {
			got = other.Name
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func kubeconfigSecret(name, server, ca string) *corev1.Secret {
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: t}}]\n",
		server, base64.StdEncoding.EncodeToString([]byte(ca)))
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: name}, Data: map[string][]byte{v1alpha1.KubeconfigKey: []byte(text)}}
}

func TestAdmit(t *testing.T) {
	const ca = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
	const otherCA = "-----BEGIN CERTIFICATE-----\nYg==\n-----END CERTIFICATE-----\n"
	first := registered("first", "", "cluster", time.Hour, time.Minute)
	for name, tc := range map[string]struct {
		server, ca string
		behind     bool // the cache has no record of the first one
		reason     string
		says       []string
	}{
		"the same kubeconfig":       {"https://a.example.org", ca, false, v1alpha1.ReasonDuplicateCluster, []string{"MemberCluster first"}},
		"another address":           {"https://b.example.org", ca, false, v1alpha1.ReasonIdentityClaimed, []string{"MemberCluster first", "https://a.example.org:443", "https://b.example.org:443"}},
		"another CA":                {"https://a.example.org", otherCA, false, v1alpha1.ReasonIdentityClaimed, []string{"MemberCluster first", ", CA "}},
		"while the cache is behind": {"https://b.example.org", ca, true, v1alpha1.ReasonIdentityClaimed, []string{"MemberCluster first"}},
	} {
		t.Run(name, func(t *testing.T) {
			claimant := registered("claimant", "", "", 2*time.Hour)
			objects := []client.Object{claimant.DeepCopy(), first.DeepCopy(), kubeconfigSecret("first", "https://a.example.org", ca), kubeconfigSecret("claimant", tc.server, tc.ca)}
			hub := newHub(t, objects...)
			cache := hub
			if tc.behind {
				unrecorded := first.DeepCopy()
				unrecorded.Status = v1alpha1.MemberClusterStatus{}
				cache = newHub(t, objects[0], unrecorded, objects[2], objects[3])
			}
			r := newReconciler(hub, cache)
			err := r.Admit(t.Context(), "claimant", "cluster")
			var refused *clusters.Error
			if !errors.As(err, &refused) || refused.Reason != tc.reason {
				t.Fatalf("got %v", err)
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			// The first one is told, and used on.
			if err := cache.Get(t.Context(), client.ObjectKey{Name: "claimant"}, &claimant); err != nil {
				t.Fatal(err)
			}
			if err := r.report(t.Context(), &claimant, clusters.State{Reason: refused.Reason, Message: refused.Error()}, nil, removal{}, nil); err != nil {
				t.Fatal(err)
			}
			told := strings.Join(eventsOf(r), "\n")
			if strings.Contains(told, "MemberCluster claimant answers with") != (tc.reason == v1alpha1.ReasonIdentityClaimed) {
				t.Errorf("told: %s", told)
			}
			if err := r.Admit(t.Context(), "first", "cluster"); err != nil {
				t.Errorf("the first one is refused: %v", err)
			}
			if err := r.Admit(t.Context(), "claimant", "another"); err != nil {
				t.Errorf("it is refused as itself: %v", err)
			}
		})
	}
	hub := newHub(t)
	if err := newReconciler(hub, hub).Admit(t.Context(), "deleted", "cluster"); err != nil {
		t.Errorf("one that is not registered any more: %v", err)
	}
	claimant := registered("claimant", "", "", time.Hour)
	down := unreadable{newHub(t, claimant.DeepCopy())}
	if err := newReconciler(down, down).Admit(t.Context(), "claimant", "cluster"); !clusters.Unanswered(err) {
		t.Errorf("where the hub cannot be read: %v", err)
	}
}

func TestIdentityFollowsTheKubeconfig(t *testing.T) {
	at := func(server, ca string) clusters.State {
		s := stateReady
		s.Server, s.CA = server, ca
		return s
	}
	m := newMember()
	setReady(m, at("https://a:443", "1"), noon)
	setReady(m, at("https://b:443", "2"), noon.Add(time.Hour))
	want := &v1alpha1.MemberIdentity{Since: metav1.NewTime(noon), Server: "https://b:443", CA: "2"}
	if diff := cmp.Diff(want, m.Status.Identity); diff != "" || m.Status.ClusterUID != "cluster" {
		t.Errorf("%s %s", m.Status.ClusterUID, diff)
	}
	away := stateAway
	away.Server = "https://c:443"
	setReady(m, away, noon.Add(2*time.Hour))
	wrong := at("https://d:443", "4")
	wrong.UID = "other"
	setReady(m, wrong, noon.Add(2*time.Hour))
	if diff := cmp.Diff(want, m.Status.Identity); diff != "" {
		t.Errorf("what was not found to be the same cluster is on record: %s", diff)
	}
	// On record since before identities were.
	old := newMember(func(m *v1alpha1.MemberCluster) { m.CreationTimestamp, m.Status.ClusterUID = ago(time.Hour), "cluster" })
	setReady(old, at("https://a:443", "1"), noon)
	if since := old.Status.Identity.Since; !since.Time.Equal(noon.Add(-time.Hour)) {
		t.Errorf("on record since %v", since)
	}
}

func TestLifted(t *testing.T) {
	since := noon.Add(-time.Hour)
	for name, tc := range map[string]struct {
		value string
		want  bool
		says  string
	}{
		"nothing":          {"", false, ""},
		"now":              {noon.Format(time.RFC3339), true, ""},
		"in another zone":  {"2026-01-02T13:00:00+01:00", true, ""},
		"a clock ahead":    {noon.Add(30 * time.Second).Format(time.RFC3339), true, ""},
		"before it began":  {since.Add(-time.Minute).Format(time.RFC3339), false, ""},
		"when it began":    {since.Format(time.RFC3339), false, ""},
		"no time":          {"now", false, "is no time"},
		"a day":            {"2026-01-02", false, "is no time"},
		"for all the time": {"2099-01-01T00:00:00Z", false, "a time to come"},
	} {
		is, err := lifted(tc.value, since, noon)
		if is != tc.want || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %t, %v", name, is, err)
		}
	}
}

func TestQuarantineIsOnRecord(t *testing.T) {
	q := &v1alpha1.Quarantine{Since: ago(time.Hour), Limit: "List", Allowed: "a page of a list of at most 96 MiB", Asked: "GET /api/v1/pods"}
	lift := func(value string) func(*v1alpha1.MemberCluster) {
		return func(m *v1alpha1.MemberCluster) {
			m.Annotations = map[string]string{v1alpha1.AnnotationLiftQuarantine: value}
		}
	}
	recorded := func(m *v1alpha1.MemberCluster) { m.Status.Quarantine = q }
	for name, tc := range map[string]struct {
		member *v1alpha1.MemberCluster
		want   *v1alpha1.Quarantine
		says   string
	}{
		"never":                   {newMember(), nil, ""},
		"on record":               {newMember(recorded), q, "GET /api/v1/pods was beyond the limit List"},
		"lifted":                  {newMember(recorded, lift(noon.Format(time.RFC3339))), nil, ""},
		"lifted before it began":  {newMember(recorded, lift("2020-01-01T00:00:00Z")), q, v1alpha1.AnnotationLiftQuarantine + "=$(date"},
		"lifted with a bad value": {newMember(recorded, lift("yes")), q, "is no time"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, kubeconfigSecret("alpine", "https://127.0.0.1:1", "x"))
			r := newReconciler(hub, hub) // which has just been started
			state, err := r.connect(t.Context(), tc.member)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, state.Quarantine); diff != "" || (state.Reason == v1alpha1.ReasonQuarantined) != (tc.want != nil) || !strings.Contains(state.Message, tc.says) {
				t.Errorf("%s %s: %s", state.Reason, state.Message, diff)
			}
			setReady(tc.member, state, noon)
			if diff := cmp.Diff(tc.want, tc.member.Status.Quarantine); diff != "" {
				t.Error(diff)
			}
			if tc.want != nil && conditionOf(tc.member, v1alpha1.ConditionReady) != "False Quarantined" {
				t.Error(conditionOf(tc.member, v1alpha1.ConditionReady))
			}
			r.Provider.Remove("alpine")
		})
	}
	hub := newHub(t)
	member := newMember(recorded)
	if state, err := newReconciler(hub, hub).connect(t.Context(), member); err != nil || state.Quarantine != q || state.Reason != v1alpha1.ReasonKubeconfigMissing {
		t.Errorf("without a Secret it is forgotten: %+v, %v", state, err)
	}
}
