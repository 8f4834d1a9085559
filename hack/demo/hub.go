package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	systemNamespace = "minifleet-system"
	fleetNamespace  = "default"
	// memberUser is who MiniFleet is on the members: whom the policy there is for.
	memberUser = "system:serviceaccount:minifleet-member:minifleet-member"
	// sourceInterval is short, so that a push is seen at once; a real source is fetched less often.
	sourceInterval = 3 * time.Second
	connectTimeout = time.Minute
)

// memberRights are what the README of config/member tells administrators to give; the first document is the
// role.
const memberRights = "config/member/cluster/role.yaml"

// memberPolicy bounds what MiniFleet may do there: the policy, and its binding.
const memberPolicy = "config/member/policy/policy.yaml"

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

func clusterClient(cluster *lab.Cluster) (client.Client, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// admit gives MiniFleet its rights on a member, and no more, and returns the kubeconfig to use them with.
func admit(ctx context.Context, cluster *lab.Cluster) ([]byte, error) {
	c, err := clusterClient(cluster)
	if err != nil {
		return nil, err
	}
	role, err := memberRole()
	if err != nil {
		return nil, err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: memberUser}},
	}
	policy, bound := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := readManifests(memberPolicy, policy, bound); err != nil {
		return nil, err
	}
	for _, object := range []client.Object{policy, bound, role, binding} {
		if err := c.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return cluster.KubeconfigFor(memberUser)
}

func memberRole() (*rbacv1.ClusterRole, error) {
	role := &rbacv1.ClusterRole{}
	return role, readManifests(memberRights, role)
}

// readManifests decodes the first documents of a file of this repository.
func readManifests(file string, into ...any) error {
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return err
	}
	documents := strings.Split(string(text), "\n---")
	if len(documents) < len(into) {
		return fmt.Errorf("%s has %d documents", file, len(documents))
	}
	for i := range into {
		if err := yaml.UnmarshalStrict([]byte(documents[i]), into[i]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// register tells the hub of a member.
func register(ctx context.Context, hub client.Client, m member, kubeconfig []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: m.name + "-kubeconfig"},
		Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
	}
	cluster := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: m.labels},
		Spec: v1alpha1.MemberClusterSpec{
			KubeconfigSecretRef: v1alpha1.LocalReference{Name: secret.Name}, Namespaces: v1alpha1.AllNamespaces(),
			// Namespace default of a member is its own.
			TargetNamespaces: &v1alpha1.TargetNamespaces{Template: "demo-{namespace}"},
		},
	}
	if err := hub.Create(ctx, secret); err != nil {
		return err
	}
	return hub.Create(ctx, cluster)
}

// awaitMembers waits until the hub is connected to every member, and tells of each.
func awaitMembers(ctx context.Context, hub client.Client, tell func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	connected := map[string]bool{}
	for {
		var list v1alpha1.MemberClusterList
		if err := hub.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			m := &list.Items[i]
			if !connected[m.Name] && isTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
				connected[m.Name] = true
				tell("hub: member %s is connected (%s), Kubernetes %s", m.Name, labels.Set(m.Labels), m.Status.Version)
			}
		}
		if len(connected) == len(members) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waiting for the members to be connected: %w%s", err, missing(list.Items, connected))
		}
	}
}

func missing(items []v1alpha1.MemberCluster, connected map[string]bool) string {
	text := ""
	for i := range items {
		if !connected[items[i].Name] {
			text += "\n  " + items[i].Name + ": " + describe(items[i].Status.Conditions, v1alpha1.ConditionReady)
		}
	}
	return text
}

// declareFleet creates the Placements and the GitSource.
func declareFleet(ctx context.Context, hub client.Client, url string) error {
	one := int32(1)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: fleetNamespace, Name: name} }
	objects := []client.Object{
		&v1alpha1.Placement{ObjectMeta: named("gpu-one"), Spec: v1alpha1.PlacementSpec{
			ClusterSelector:  metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "true"}},
			NumberOfClusters: &one,
		}},
		&v1alpha1.Placement{ObjectMeta: named("south-all"), Spec: v1alpha1.PlacementSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"site": "south"}},
		}},
		&v1alpha1.GitSource{ObjectMeta: named(repositoryName), Spec: v1alpha1.GitSourceSpec{
			URL:              url,
			Ref:              &v1alpha1.GitRef{Branch: "main"},
			Interval:         metav1.Duration{Duration: sourceInterval},
			Timeout:          metav1.Duration{Duration: time.Minute},
			DefaultPlacement: &v1alpha1.LocalReference{Name: "south-all"},
		}},
	}
	for _, object := range objects {
		if err := hub.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func createSystemNamespace(ctx context.Context, hub client.Client) error {
	return hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}})
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

// describe returns a condition as REASON: MESSAGE.
func describe(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "nothing is known of it yet"
	}
	return c.Reason + ": " + c.Message
}

// pause waits a moment between two polls.
func pause(ctx context.Context) error {
	timer := time.NewTimer(250 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
