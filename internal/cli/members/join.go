package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// Member is a cluster that is to be a member, as a person who administers it sees it.
type Member struct {
	Client client.Client
	// Server is the https:// URL by which the hub reaches the cluster's API server, and CA what its certificate is checked
	// with; without one, that of the cluster itself is taken. ServerName is the name in the certificate, where that is
	// another one than in the URL.
	Server, ServerName string
	CA                 []byte
}

// Join registers a cluster as a member: it makes credentials there that allow what config/member says, and a Secret and a
// MemberCluster on the hub.
type Join struct {
	Hub    Hub
	Member Member
	Name   string
	Labels map[string]string
	// Access says which namespaces of the hub may use the member; nil keeps what is registered.
	Access *v1alpha1.NamespaceAccess
	// Confined is the one namespace of the member that MiniFleet may use, with its credentials in it; empty for all.
	Confined string
	// Namespaces are those of the member that MiniFleet may use, with its credentials in one of their own: HUB=MEMBER, or one
	// name for both. Empty is all.
	Namespaces []string
	// NoPolicy does without the policy that bounds what the credentials are worth.
	NoPolicy bool
	// Timeout is how long the token, and then the connection, is waited for.
	Timeout time.Duration

	joined string
	made   []made
	fresh  bool // the MemberCluster was made by this call
}

// made is an object that was created.
type made struct {
	client client.Client
	side   string
	object client.Object
}

const onMember, onHub = "on the member", "on the hub"

// Run joins. What is there already is left as it is where it is as wanted. When a step fails, what this call has created
// is deleted again.
func (j *Join) Run(ctx context.Context) error {
	err := j.run(ctx)
	if err == nil {
		return nil
	}
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	return errors.Join(err, j.undo(undoing))
}

func (j *Join) run(ctx context.Context) error {
	objects, err := j.prepare(ctx)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		err := j.ensure(ctx, j.Member.Client, onMember, obj)
		if isPolicy(obj) && cannotInstall(err) {
			j.Hub.Tell("%s %s: not installed (%v); an administrator of the member can apply config/member/policy", about(obj, j.Member.Client.Scheme()), onMember, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	kubeconfig, err := j.awaitToken(ctx, tokenOf(objects))
	if err != nil {
		return err
	}
	if err := j.ensure(ctx, j.Hub.Client, onHub, j.secret(kubeconfig)); err != nil {
		return err
	}
	if err := j.ensure(ctx, j.Hub.Client, onHub, j.memberCluster()); err != nil {
		return err
	}
	return j.awaitReady(ctx)
}

// prepare checks what can be known beforehand, and returns the objects for the member.
func (j *Join) prepare(ctx context.Context) ([]client.Object, error) {
	// With a token in place of the one that is still to be made.
	if _, err := clusters.RESTConfig(j.kubeconfig(j.Member.CA, "token")); err != nil {
		return nil, inputf("the hub cannot use %s for the member: %v; give another with --server", j.Member.Server, err)
	}
	if j.Confined != "" && len(j.Namespaces) > 0 {
		return nil, inputf("--namespace-only puts the credentials into the one namespace, and --member-namespace into one of their own: give one of the two")
	}
	objects, err := j.objects()
	if err != nil {
		return nil, err
	}
	if j.joined, err = j.Hub.joined(ctx, j.Name); err != nil {
		return nil, err
	}
	for _, namespace := range j.limits() {
		if _, err := namespaceUID(ctx, j.Member.Client, namespace); err != nil {
			return nil, fmt.Errorf("namespace %s of the member, which has to exist: %w", namespace, err)
		}
	}
	return objects, j.checkIdentity(ctx)
}

// checkAccess wants it said who may use a new member.
func (j *Join) checkAccess(registered []v1alpha1.MemberCluster) error {
	said := slices.ContainsFunc(registered, func(m v1alpha1.MemberCluster) bool { return m.Name == j.Name && m.Spec.Namespaces != nil })
	if j.Access == nil && !said {
		return inputf("which namespaces of the hub may use member %s? Say it with --hub-namespaces NAME,… or --hub-namespaces '*', or --hub-namespace-selector KEY=VALUE", j.Name)
	}
	return nil
}

// objects are those for the member. The policy comes before what it bounds.
func (j *Join) objects() ([]client.Object, error) {
	objects, err := access(j.Confined, j.memberNamespaces()...)
	if err != nil || j.NoPolicy {
		return objects, err
	}
	bounds, err := policy()
	return append(bounds, objects...), err
}

// limits are the namespaces that MiniFleet may use on the member; none for all.
func (j *Join) limits() []string {
	if j.Confined != "" {
		return []string{j.Confined}
	}
	var out []string
	for _, n := range j.targets() {
		out = append(out, n.Target)
	}
	return out
}

// memberNamespaces are those of the targets.
func (j *Join) memberNamespaces() []string {
	if j.Confined != "" {
		return nil
	}
	return j.limits()
}

// targets are the namespaces of the hub that have one of the member each: HUB=MEMBER, or one name for both.
func (j *Join) targets() []v1alpha1.TargetNamespace {
	var out []v1alpha1.TargetNamespace
	for _, pair := range j.Namespaces {
		hub, target, two := strings.Cut(pair, "=")
		if !two {
			target = hub
		}
		out = append(out, v1alpha1.TargetNamespace{Namespace: hub, Target: target})
	}
	return out
}

// cannotInstall says whether an error is that a person may not install policies, or that the member does not know any.
func cannotInstall(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// checkIdentity refuses a cluster that is registered under another name, and a name that is another cluster's.
func (j *Join) checkIdentity(ctx context.Context) error {
	var registered v1alpha1.MemberClusterList
	if err := j.Hub.Client.List(ctx, &registered); err != nil {
		return fmt.Errorf("listing the members of the hub: %w", err)
	}
	if err := j.checkAccess(registered.Items); err != nil {
		return err
	}
	uid, err := clusterUID(ctx, j.Member.Client)
	if apierrors.IsForbidden(err) {
		return nil // the hub will find out
	}
	if err != nil {
		return fmt.Errorf("asking the member who it is: %w", err)
	}
	return j.checkRegistered(registered.Items, uid)
}

func (j *Join) checkRegistered(registered []v1alpha1.MemberCluster, uid string) error {
	for i := range registered {
		m := &registered[i]
		switch {
		case m.Name == j.Name && !m.DeletionTimestamp.IsZero():
			return fmt.Errorf("member %s is being deleted: wait for the end of that", j.Name)
		case m.Name == j.Name && m.Annotations[AnnotationJoined] == "":
			return inputf("the hub has a MemberCluster %s that no join has made: choose another name, or edit that one", j.Name)
		case m.Name == j.Name && j.Confined == "" && m.Status.ClusterUID != "" && m.Status.ClusterUID != uid:
			return inputf("member %s is another cluster (UID %s, and this one has %s): choose another name", j.Name, m.Status.ClusterUID, uid)
		case m.Name != j.Name && m.Status.ClusterUID == uid:
			return inputf("the cluster is a member already, as %s", m.Name)
		}
	}
	return nil
}

func clusterUID(ctx context.Context, c client.Client) (string, error) {
	return namespaceUID(ctx, c, metav1.NamespaceSystem)
}

func namespaceUID(ctx context.Context, c client.Client, name string) (string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(namespaceKind)
	err := c.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return string(namespace.UID), err
}

// ensure creates an object, or brings that in line which an earlier call has made.
func (j *Join) ensure(ctx context.Context, c client.Client, side string, want client.Object) error {
	what := about(want, c.Scheme())
	have, err := emptyLike(c, want)
	if err != nil {
		return err
	}
	err = c.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return j.create(ctx, c, side, want)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", what, side, err)
	}
	by := have.GetAnnotations()[AnnotationJoined]
	switch {
	case by == "" && side == onHub:
		return fmt.Errorf("%s is %s already, and no join has made it: choose another name", what, side)
	case by == "":
		j.Hub.Tell("%s %s: was there already, and is left as it is", what, side)
		return nil
	case by != j.joined:
		return fmt.Errorf("%s %s belongs to another hub, or to another name there (%s): remove the member there first", what, side, by)
	case !take(have, want):
		j.Hub.Tell("%s %s: unchanged", what, side)
		return nil
	}
	if err := c.Update(ctx, have); err != nil {
		return fmt.Errorf("updating %s %s: %w", what, side, err)
	}
	j.Hub.Tell("%s %s: updated", what, side)
	return nil
}

func (j *Join) create(ctx context.Context, c client.Client, side string, want client.Object) error {
	what := about(want, c.Scheme())
	annotate(want, j.joined)
	err := c.Create(ctx, want)
	if err == nil || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown { // a reply that was lost says nothing
		j.made = append(j.made, made{c, side, want})
	}
	if err != nil {
		return fmt.Errorf("creating %s %s: %w", what, side, err)
	}
	if _, ok := want.(*v1alpha1.MemberCluster); ok {
		j.fresh = true
	}
	j.Hub.Tell("%s %s: created", what, side)
	return nil
}

func emptyLike(c client.Client, obj client.Object) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return nil, err
	}
	out, err := c.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return out.(client.Object), nil //nolint:forcetypeassert // as obj is
}

func annotate(obj client.Object, joined string) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationJoined] = joined
	obj.SetAnnotations(annotations)
}

// take makes an object as wanted, and says whether it was not. What others have added to it stays.
func take(have, want client.Object) (changed bool) {
	before := have.DeepCopyObject()
	switch h := have.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		if w := want.(*admissionv1.ValidatingAdmissionPolicy); !equality.Semantic.DeepDerivative(w.Spec, h.Spec) { //nolint:forcetypeassert // see below
			h.Spec = w.Spec
		}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		if w := want.(*admissionv1.ValidatingAdmissionPolicyBinding); !equality.Semantic.DeepDerivative(w.Spec, h.Spec) { //nolint:forcetypeassert // see below
			h.Spec = w.Spec
		}
	case *rbacv1.ClusterRole:
		h.Rules = want.(*rbacv1.ClusterRole).Rules //nolint:forcetypeassert // both are of one type, here and below
	case *rbacv1.Role:
		h.Rules = want.(*rbacv1.Role).Rules //nolint:forcetypeassert // see above
	case *rbacv1.ClusterRoleBinding:
		h.Subjects = want.(*rbacv1.ClusterRoleBinding).Subjects //nolint:forcetypeassert // see above
	case *rbacv1.RoleBinding:
		h.Subjects = want.(*rbacv1.RoleBinding).Subjects //nolint:forcetypeassert // see above
	case *corev1.Secret:
		if h.Type != corev1.SecretTypeServiceAccountToken {
			h.Data = want.(*corev1.Secret).Data //nolint:forcetypeassert // see above
		}
	case *v1alpha1.MemberCluster:
		w := want.(*v1alpha1.MemberCluster) //nolint:forcetypeassert // see above
		h.Spec.KubeconfigSecretRef, h.Spec.Namespace = w.Spec.KubeconfigSecretRef, w.Spec.Namespace
		if w.Spec.TargetNamespaces != nil {
			h.Spec.TargetNamespaces = w.Spec.TargetNamespaces
		}
		if w.Spec.Namespaces != nil {
			h.Spec.Namespaces = w.Spec.Namespaces
		}
		for k, v := range w.Labels {
			metav1.SetMetaDataLabel(&h.ObjectMeta, k, v)
		}
	}
	return !equality.Semantic.DeepEqual(before, have)
}

// awaitToken waits until the cluster has put a token into a Secret, and returns a kubeconfig with it.
func (j *Join) awaitToken(ctx context.Context, token *corev1.Secret) ([]byte, error) {
	var s corev1.Secret
	pending := func() string {
		return fmt.Sprintf("the member has put no token into Secret %s/%s: its token controller does that", token.Namespace, token.Name)
	}
	err := await(ctx, j.Timeout, pending, func(ctx context.Context) (bool, error) {
		err := j.Member.Client.Get(ctx, client.ObjectKeyFromObject(token), &s)
		return len(s.Data[corev1.ServiceAccountTokenKey]) > 0 && len(s.Data[corev1.ServiceAccountRootCAKey]) > 0, err
	})
	if err != nil {
		return nil, err
	}
	ca := j.Member.CA
	if len(ca) == 0 {
		ca = s.Data[corev1.ServiceAccountRootCAKey]
	}
	return j.kubeconfig(ca, string(s.Data[corev1.ServiceAccountTokenKey])), nil
}

// kubeconfig is that of the hub for the member.
func (j *Join) kubeconfig(ca []byte, token string) []byte {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[j.Name] = &clientcmdapi.Cluster{Server: j.Member.Server, TLSServerName: j.Member.ServerName, CertificateAuthorityData: ca}
	cfg.AuthInfos["minifleet"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts[j.Name] = &clientcmdapi.Context{Cluster: j.Name, AuthInfo: "minifleet"}
	cfg.CurrentContext = j.Name
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		panic(err) // not reachable: these are plain values
	}
	return out
}

func (j *Join) secret(kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Hub.Namespace, Name: j.Name},
		Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
	}
}

// memberCluster is the member on the hub. What it says of namespaces is what limits says.
func (j *Join) memberCluster() *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: j.Name, Labels: maps.Clone(j.Labels)},
		Spec: v1alpha1.MemberClusterSpec{
			Namespaces: j.Access, KubeconfigSecretRef: v1alpha1.LocalReference{Name: j.Name}, Namespace: j.Confined,
		},
	}
	if names := j.targets(); len(names) > 0 {
		m.Spec.TargetNamespaces = &v1alpha1.TargetNamespaces{Names: names, Only: true}
	}
	return m
}

// hopeless are reasons of a new member that waiting does not change.
var hopeless = []string{
	v1alpha1.ReasonKubeconfigInvalid, v1alpha1.ReasonKubeconfigRefused, v1alpha1.ReasonCertificateUntrusted,
	v1alpha1.ReasonDuplicateCluster, v1alpha1.ReasonWrongCluster, v1alpha1.ReasonFenced, v1alpha1.ReasonOtherShard,
	v1alpha1.ReasonIdentityClaimed, v1alpha1.ReasonQuarantined, v1alpha1.ReasonRedirectRefused,
}

// awaitReady waits until the hub is connected to the member.
func (j *Join) awaitReady(ctx context.Context) error {
	m := &v1alpha1.MemberCluster{}
	told := ""
	err := await(ctx, j.Timeout, func() string { return "member " + j.Name + " is not ready: " + messageOf(m, v1alpha1.ConditionReady) },
		func(ctx context.Context) (bool, error) {
			if err := j.Hub.Client.Get(ctx, client.ObjectKey{Name: j.Name}, m); err != nil {
				return false, fmt.Errorf("reading MemberCluster %s on the hub: %w", j.Name, err)
			}
			ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
			switch {
			case ready == nil || m.Status.ObservedGeneration < m.Generation:
				return false, nil
			case ready.Status == metav1.ConditionTrue:
				return true, nil
			case j.fresh && slices.Contains(hopeless, ready.Reason):
				return false, fmt.Errorf("member %s cannot be used: %s", j.Name, messageOf(m, v1alpha1.ConditionReady))
			}
			if told != ready.Reason {
				told = ready.Reason
				j.Hub.Tell("member %s: waits for the hub to connect (%s)", j.Name, told)
			}
			return false, nil
		})
	if err != nil {
		return err
	}
	j.Hub.Tell("member %s: ready, Kubernetes %s", j.Name, m.Status.Version)
	return nil
}

// undo deletes what this call has created, the latest first.
func (j *Join) undo(ctx context.Context) error {
	var errs []error
	for _, m := range slices.Backward(j.made) {
		what := about(m.object, m.client.Scheme())
		deleted, err := j.remove(ctx, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s stays: %w", what, m.side, err))
			if _, ok := m.object.(*v1alpha1.MemberCluster); ok {
				return errors.Join(append(errs, fmt.Errorf("so does everything that it needs; `%s cluster remove %s` takes it out", j.Hub.Program, j.Name))...)
			}
			continue
		}
		if deleted {
			j.Hub.Tell("%s %s: deleted again", what, m.side)
		}
	}
	return errors.Join(errs...)
}

// remove deletes what this call has created, or may have: whose reply was lost. Before, it was not there.
func (j *Join) remove(ctx context.Context, m made) (deleted bool, err error) {
	err = m.client.Get(ctx, client.ObjectKeyFromObject(m.object), m.object)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case m.object.GetAnnotations()[AnnotationJoined] != j.joined:
		return false, nil
	}
	if cluster, ok := m.object.(*v1alpha1.MemberCluster); ok {
		return true, j.Hub.abandon(ctx, cluster)
	}
	return true, client.IgnoreNotFound(m.client.Delete(ctx, m.object, ours(m.object)))
}

// ours has an object deleted only if it is the one that was read or made.
func ours(obj client.Object) client.Preconditions {
	uid := obj.GetUID()
	return client.Preconditions{UID: &uid}
}

// abandon deletes a MemberCluster that was never ready. Where no run names it nothing of ours is on the member, and nothing
// has to be removed there.
func (h *Hub) abandon(ctx context.Context, m *v1alpha1.MemberCluster) error {
	used, err := h.uses(ctx, m.Name)
	if err != nil {
		return err
	}
	policy := v1alpha1.DeletionOrphan
	if used {
		policy = v1alpha1.DeletionBlock
	}
	return h.delete(ctx, m, policy, undoTimeout)
}

// uses says whether any FleetMiniCluster has, or had, a run on a member.
func (h *Hub) uses(ctx context.Context, name string) (bool, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := h.Client.List(ctx, &list); err != nil {
		return false, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	for i := range list.Items {
		s := &list.Items[i].Status
		if slices.ContainsFunc(s.Runs, func(r v1alpha1.Run) bool { return r.Cluster == name }) ||
			slices.ContainsFunc(s.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == name }) {
			return true, nil
		}
	}
	return false, nil
}

// redactedToken stands for the token, which is made by the member.
const redactedToken = "REDACTED"

// DryRun prints the objects of both sides as YAML, and changes nothing.
func (j *Join) DryRun(ctx context.Context, out io.Writer) error {
	objects, err := j.prepare(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	add := func(side string, c client.Client, objects ...client.Object) error {
		fmt.Fprintf(&b, "# %s\n", side)
		for _, obj := range objects {
			annotate(obj, j.joined)
			gvk, err := apiutil.GVKForObject(obj, c.Scheme())
			if err != nil {
				return err
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			body, err := manifest(obj)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "---\n%s", body)
		}
		return nil
	}
	kubeconfig := string(j.kubeconfig(j.Member.CA, redactedToken))
	secret := j.secret(nil)
	secret.Data, secret.StringData = nil, map[string]string{v1alpha1.KubeconfigKey: kubeconfig}
	err = errors.Join(add(onMember, j.Member.Client, objects...), add(onHub, j.Hub.Client, secret, j.memberCluster()))
	if err != nil {
		return err
	}
	_, err = out.Write(b.Bytes())
	return err
}

// manifest is an object as somebody would write it.
func manifest(obj client.Object) ([]byte, error) {
	body, err := yaml.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	if spec, ok := fields["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(fields, "spec")
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	return yaml.Marshal(fields)
}
