package membercluster

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/clusterprofile"
)

func clusterProfile(name, provider string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": "minifleet-system", "name": name},
		"status": map[string]any{"properties": []any{map[string]any{"name": "a", "value": "b"}}, "accessProviders": []any{map[string]any{
			"name": provider, "cluster": map[string]any{"server": "https://10.0.0.1:6443", "certificate-authority-data": "Q0E=", "extensions": []any{
				map[string]any{"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", "extension": map[string]any{"CLUSTER": "granite"}},
			}},
		}}},
	}}
}

func providers(t *testing.T) *clusterprofile.Providers {
	t.Helper()
	out, err := clusterprofile.Parse([]byte(`{"providers": [{"name": "cloud", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cloud"}, "profileSourcedEnvVarsPolicy": "AppendIfNotExists"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A hub that has no ClusterProfiles, or does not let them be read, is asked again, and members are told of each change.
func TestClusterProfilesThatComeLater(t *testing.T) {
	resource := clusterprofile.Resource
	hub := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "ClusterProfileList"},
		clusterProfile("granite", "cloud"), clusterProfile("basalt", "unknown"))
	var refusal atomic.Pointer[apierrors.StatusError]
	refusal.Store(apierrors.NewNotFound(resource.GroupResource(), ""))
	hub.PrependReactor("list", "clusterprofiles", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := refusal.Load(); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
	p := NewClusterProfiles(hub, "minifleet-system", providers(t), 0.001, logr.Discard())
	changed := make(chan string, 100)
	p.changed = func(name string) { changed <- name }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Start(ctx) }()
	until := func(name, reason, says string) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for {
			_, err := p.access(name)
			if err == nil && reason == "" || err != nil && err.Reason == reason && strings.Contains(err.Error(), says) {
				return
			}
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	until("granite", v1alpha1.ReasonClusterProfileMissing, "install its CustomResourceDefinition")
	refusal.Store(apierrors.NewForbidden(resource.GroupResource(), "", nil))
	until("granite", v1alpha1.ReasonClusterProfileMissing, "apply config/cluster-profiles")
	refusal.Store(nil)
	until("granite", "", "")
	access, err := p.access("granite")
	if err != nil || access.Server != "https://10.0.0.1:6443" || string(access.CA) != "CA" || strings.Join(access.Plugin.Env, " ") != "CLUSTER=granite" {
		t.Errorf("%+v, %v", access, err)
	}
	until("basalt", v1alpha1.ReasonClusterProfileRefused, "ClusterProfile minifleet-system/basalt: status.accessProviders names unknown")
	until("dune", v1alpha1.ReasonClusterProfileMissing, "there is no ClusterProfile minifleet-system/dune")

	if err := hub.Resource(resource).Namespace("minifleet-system").Delete(ctx, "granite", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("granite", v1alpha1.ReasonClusterProfileMissing, "there is no ClusterProfile")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is not read yet is not taken for missing.
func TestClusterProfilesThatAreNotReadYet(t *testing.T) {
	hub := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{clusterprofile.Resource: "ClusterProfileList"})
	p := NewClusterProfiles(hub, "minifleet-system", providers(t), 1, logr.Discard())
	if _, err := p.access("granite"); err == nil || err.Reason != v1alpha1.ReasonConnecting {
		t.Error(err)
	}
	p.note(apierrors.NewServiceUnavailable("the hub is busy"))
	if _, err := p.access("granite"); err == nil || err.Reason != v1alpha1.ReasonConnecting {
		t.Error(err)
	}
}
