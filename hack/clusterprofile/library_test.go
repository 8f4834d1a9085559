package clusterprofile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"

	"github.com/minifleet/minifleet/clusters/clusterprofile"
)

const (
	argsExtension = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	envExtension  = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
)

const file = `{"providers": [
  {"name": "cloud", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/plugins/cloud", "args": ["token"],
    "env": [{"name": "REGION", "value": "north"}]}, "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": %q},
  {"name": "vault", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "vault-token"}}
]}`

func library(t *testing.T, policy string) *access.Config {
	t.Helper()
	var out access.Config
	if err := json.Unmarshal(fmt.Appendf(nil, file, policy), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func ours(t *testing.T, policy string) *clusterprofile.Providers {
	t.Helper()
	out, err := clusterprofile.Parse(fmt.Appendf(nil, file, policy))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// profile names both providers, with these extensions of their clusters: a name and JSON in turn.
func profile(name string, extensions ...string) *v1alpha1.ClusterProfile {
	p := &v1alpha1.ClusterProfile{}
	p.Name = name
	cluster := clientcmdv1.Cluster{Server: "https://" + name + ":6443", CertificateAuthorityData: []byte("CA of " + name)}
	for pair := range slices.Chunk(extensions, 2) {
		cluster.Extensions = append(cluster.Extensions, clientcmdv1.NamedExtension{Name: pair[0], Extension: runtime.RawExtension{Raw: []byte(pair[1])}})
	}
	p.Status.AccessProviders = []v1alpha1.AccessProvider{{Name: "vault", Cluster: cluster}, {Name: "cloud", Cluster: cluster}}
	return p
}

// result is what a plugin is run with.
type result struct {
	Server, CA, Command, APIVersion string
	Args, Env                       []string
}

func byLibrary(t *testing.T, c *access.Config, p *v1alpha1.ClusterProfile) result {
	t.Helper()
	cfg, err := c.BuildConfigFromCP(p)
	if err != nil {
		t.Fatal(err)
	}
	out := result{cfg.Host, string(cfg.CAData), cfg.ExecProvider.Command, cfg.ExecProvider.APIVersion, slices.Clone(cfg.ExecProvider.Args), nil}
	for _, e := range cfg.ExecProvider.Env {
		out.Env = append(out.Env, e.Name+"="+e.Value)
	}
	slices.Sort(out.Env) // it has them in the random order of a map
	return out
}

func byOurs(t *testing.T, providers *clusterprofile.Providers, p *v1alpha1.ClusterProfile) result {
	t.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var read clusterprofile.Profile
	if err := json.Unmarshal(body, &read); err != nil {
		t.Fatal(err)
	}
	a, err := providers.Access(&read)
	if err != nil {
		t.Fatal(err)
	}
	out := result{a.Server, string(a.CA), a.Plugin.Path, a.Plugin.APIVersion, a.Plugin.Args, slices.Clone(a.Plugin.Env)}
	slices.Sort(out.Env)
	return out
}

// Both read one file and one ClusterProfile alike, when the library is asked for the first time.
func TestTheFileMeansTheSame(t *testing.T) {
	cases := map[string][]string{
		"nothing added":  nil,
		"arguments":      {argsExtension, `["--cluster", "granite"]`},
		"variables":      {envExtension, `{"CLUSTER": "granite", "REGION": "south"}`},
		"both":           {envExtension, `{"CLUSTER": "granite"}`, argsExtension, `["--cluster"]`},
		"something else": {"example.org/other", `{"a": 1}`},
	}
	for name, extensions := range cases {
		for _, policy := range []string{"", "Ignore", "AppendIfNotExists", "Replace"} {
			p := profile("granite", extensions...)
			if diff := cmp.Diff(byLibrary(t, library(t, policy), p), byOurs(t, ours(t, policy), p)); diff != "" {
				t.Errorf("%s, policy %q (-library +ours):\n%s", name, policy, diff)
			}
		}
	}
}

// The library has one ExecConfig for all clusters, and lets it grow: what the first cluster adds reaches the second. Ours does not.
// When the first half fails, the library is fixed, and clusters/clusterprofile may use it.
func TestWhatOneClusterAddsReachesTheNextOneInTheLibraryAlone(t *testing.T) {
	first := profile("granite", argsExtension, `["--cluster", "granite"]`, envExtension, `{"ROLE": "of-granite"}`)
	second := profile("basalt")
	clean := byLibrary(t, library(t, "AppendIfNotExists"), second)

	shared := library(t, "AppendIfNotExists")
	byLibrary(t, shared, first)
	after := byLibrary(t, shared, second)
	if !slices.Contains(after.Args, "granite") || !slices.Contains(after.Env, "ROLE=of-granite") {
		t.Errorf("the library does not share any more: %+v", after)
	}
	byLibrary(t, shared, first)
	if again := byLibrary(t, shared, first); strings.Count(strings.Join(again.Args, " "), "--cluster granite") < 3 {
		t.Errorf("the library does not let arguments grow any more: %v", again.Args)
	}

	own := ours(t, "AppendIfNotExists")
	for range 3 {
		if got := byOurs(t, own, first); strings.Count(strings.Join(got.Args, " "), "--cluster granite") != 1 {
			t.Errorf("arguments grow: %v", got.Args)
		}
	}
	if diff := cmp.Diff(clean, byOurs(t, own, second)); diff != "" {
		t.Errorf("the second cluster has what is the first one's (-alone +after the first):\n%s", diff)
	}
}

// A ClusterProfile may have the library panic, with variables that are null.
func TestVariablesThatAreNullPanicInTheLibraryAlone(t *testing.T) {
	hostile := profile("granite", envExtension, "null")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the library does not panic any more")
			}
		}()
		_, _ = library(t, "AppendIfNotExists").BuildConfigFromCP(hostile)
	}()
	if got := byOurs(t, ours(t, "AppendIfNotExists"), hostile); !slices.Equal(got.Env, []string{"REGION=north"}) {
		t.Errorf("%v", got.Env)
	}
}
