package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func ours() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "n", Namespace: "hpc", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		Annotations: map[string]string{v1alpha1.AnnotationDigest: "1", v1alpha1.AnnotationOwner: "hpc/n"},
	}
}

func configMap(change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: ours(), Data: map[string]string{"a": "1"}}
	for _, f := range change {
		f(c)
	}
	return c
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: ours(), Spec: corev1.ServiceSpec{
		ClusterIP: "None", PublishNotReadyAddresses: true, Selector: map[string]string{"job": "n"},
	}}
	for _, f := range change {
		f(s)
	}
	return s
}

func secret(change ...func(*corev1.Secret)) *corev1.Secret {
	s := stamped(&corev1.Secret{ObjectMeta: ours(), Data: map[string][]byte{"curve.cert": []byte("key")}}).(*corev1.Secret)
	for _, f := range change {
		f(s)
	}
	return s
}

func TestDifference(t *testing.T) {
	cases := map[string]struct {
		want, have client.Object
		is         Difference
	}{
		"the same map":         {configMap(), configMap(), Same},
		"what others add":      {configMap(), configMap(func(c *corev1.ConfigMap) { c.Labels["x"] = "y"; c.Annotations["x"] = "y"; c.UID = "u" }), Same},
		"another rendering":    {configMap(), configMap(func(c *corev1.ConfigMap) { c.Annotations[v1alpha1.AnnotationDigest] = "2" }), Outdated},
		"no digest":            {configMap(), configMap(func(c *corev1.ConfigMap) { c.Annotations = nil }), Outdated},
		"edited":               {configMap(), configMap(func(c *corev1.ConfigMap) { c.Data["a"] = "2" }), Drifted},
		"a key added":          {configMap(), configMap(func(c *corev1.ConfigMap) { c.Data["b"] = "2" }), Drifted},
		"a key deleted":        {configMap(), configMap(func(c *corev1.ConfigMap) { c.Data = nil }), Drifted},
		"binary data added":    {configMap(), configMap(func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"b": nil} }), Drifted},
		"a label deleted":      {configMap(), configMap(func(c *corev1.ConfigMap) { c.Labels = nil }), Drifted},
		"a label edited":       {configMap(), configMap(func(c *corev1.ConfigMap) { c.Labels[v1alpha1.LabelManagedBy] = "x" }), Drifted},
		"an annotation edited": {configMap(), configMap(func(c *corev1.ConfigMap) { c.Annotations[v1alpha1.AnnotationOwner] = "x/y" }), Drifted},
		"the same service":     {service(), service(), Same},
		"what the server sets": {service(), service(func(s *corev1.Service) {
			s.Spec.Type = "ClusterIP"
			s.Spec.SessionAffinity = "None"
			s.Spec.ClusterIPs = []string{"None"}
		}), Same},
		"another selector":       {service(), service(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"job": "m"} }), Drifted},
		"a narrower selector":    {service(), service(func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }), Drifted},
		"not headless":           {service(), service(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.1" }), Drifted},
		"only ready addresses":   {service(), service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = false }), Drifted},
		"the same secret":        {secret(), secret(), Same},
		"another certificate":    {secret(), stamped(&corev1.Secret{ObjectMeta: ours(), Data: map[string][]byte{"curve.cert": []byte("other")}}), Outdated},
		"a secret edited":        {secret(), secret(func(s *corev1.Secret) { s.Data["curve.cert"] = []byte("other") }), Drifted},
		"a secret emptied":       {secret(), secret(func(s *corev1.Secret) { s.Data = nil }), Drifted},
		"a key of a secret more": {secret(), secret(func(s *corev1.Secret) { s.Data["x"] = nil }), Drifted},
		"its hash deleted":       {secret(), secret(func(s *corev1.Secret) { delete(s.Annotations, SecretContentAnnotation) }), Drifted},
		"a secret's label off":   {secret(), secret(func(s *corev1.Secret) { s.Labels = nil }), Drifted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := difference(c.want, c.have); got != c.is {
				t.Errorf("got %s, want %s", got, c.is)
			}
		})
	}
}

func TestStamped(t *testing.T) {
	plain := &corev1.Secret{Data: map[string][]byte{"a": []byte("key")}}
	out := stamped(plain)
	if plain.Annotations != nil {
		t.Error("the original has changed")
	}
	if h := out.GetAnnotations()[SecretContentAnnotation]; len(h) != 32 || strings.Contains(h, "key") {
		t.Errorf("the hash is %q", h)
	}
	if a := stamped(configMap()).GetAnnotations(); len(a) != 2 {
		t.Errorf("a ConfigMap got annotations: %v", a)
	}
	if contentDigest(map[string][]byte{"ab": []byte("c")}) == contentDigest(map[string][]byte{"a": []byte("bc")}) {
		t.Error("keys and values run into each other")
	}
}

func TestOrigin(t *testing.T) {
	o := fleet.Origin{FleetID: "h", Owner: "hpc/n", OwnerUID: "u"}
	cases := map[string]struct {
		origin      fleet.Origin
		annotations map[string]string
		owns        bool
		owner       string
		says        string
	}{
		"ours":                {o, map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwnerUID: "u", v1alpha1.AnnotationOwner: "hpc/n"}, true, "hpc/n", "belongs to FleetMiniCluster hpc/n: "},
		"another's":           {o, map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwnerUID: "v", v1alpha1.AnnotationOwner: "lab/n"}, false, "", "belongs to a FleetMiniCluster of another namespace: "},
		"its neighbour's":     {o, map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwnerUID: "v", v1alpha1.AnnotationOwner: "hpc/m"}, false, "hpc/m", "belongs to FleetMiniCluster hpc/m: "},
		"our name, made anew": {o, map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwnerUID: "v", v1alpha1.AnnotationOwner: "hpc/n"}, true, "hpc/n", "belongs to FleetMiniCluster hpc/n: "},
		"another fleet's":     {o, map[string]string{v1alpha1.AnnotationFleetID: "i", v1alpha1.AnnotationOwnerUID: "u", v1alpha1.AnnotationOwner: "hpc/n"}, false, "", "belongs to a FleetMiniCluster of another fleet: "},
		"a stranger's":        {o, nil, false, "", "is not MiniFleet's"},
		"no origin at all":    {fleet.Origin{}, nil, false, "", "is not MiniFleet's"},
		"no owner":            {fleet.Origin{FleetID: "h"}, map[string]string{v1alpha1.AnnotationFleetID: "h"}, false, "", "is not MiniFleet's"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := configMap()
			obj.Annotations = c.annotations
			if got := c.origin.Owns(obj); got != c.owns {
				t.Errorf("owned: %t", got)
			}
			e := conflictOf(c.origin, "ConfigMap", obj)
			if e.Owner != c.owner || !strings.Contains(e.Error(), "ConfigMap hpc/n already exists on the member and "+c.says) || strings.Contains(e.Error(), "lab") {
				t.Errorf("got %v", e)
			}
		})
	}
}

var (
	jobs     = schema.GroupResource{Group: "batch", Resource: "jobs"}
	notFound = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "hpc")
)

func TestErrors(t *testing.T) {
	refusedDial := &url.Error{Op: "Get", URL: "https://m", Err: errors.New("connection refused")}
	cases := map[string]struct {
		err        error
		reason     string
		unanswered bool
	}{
		"unauthorized":   {apierrors.NewUnauthorized("no"), v1alpha1.ReasonAuthFailed, false},
		"forbidden":      {apierrors.NewForbidden(jobs, "n", errors.New("no")), v1alpha1.ReasonForbidden, false},
		"invalid":        {apierrors.NewBadRequest("no"), v1alpha1.ReasonUnreachable, false},
		"not found":      {fmt.Errorf("reading: %w", apierrors.NewNotFound(jobs, "n")), v1alpha1.ReasonUnreachable, false},
		"deadline":       {fmt.Errorf("reading: %w", context.DeadlineExceeded), v1alpha1.ReasonUnreachable, true},
		"no headers":     {errHeaderTimeout, v1alpha1.ReasonUnreachable, true},
		"refused":        {refusedDial, v1alpha1.ReasonUnreachable, true},
		"not engaged":    {fmt.Errorf("member m: %w", ErrNotEngaged), v1alpha1.ReasonUnreachable, true},
		"wrong cluster":  {wrongCluster("a", "b"), v1alpha1.ReasonWrongCluster, true},
		"anything":       {errors.New("odd"), v1alpha1.ReasonUnreachable, false},
		"a conflict":     {&Conflict{Kind: "Job"}, v1alpha1.ReasonUnreachable, false},
		"classified one": {connectionError(refusedDial), v1alpha1.ReasonUnreachable, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := connectionError(c.err)
			if e.Reason != c.reason || e.Error() == "" {
				t.Errorf("got %s: %v, want %s", e.Reason, e, c.reason)
			}
			if got := Unanswered(c.err); got != c.unanswered {
				t.Errorf("unanswered: %t", got)
			}
		})
	}
	if Unanswered(nil) {
		t.Error("no error is an answer")
	}
}

func TestNamespaceMissing(t *testing.T) {
	cases := map[string]struct {
		err  error
		want bool
	}{
		"the namespace":   {notFound, true},
		"wrapped":         {fmt.Errorf("creating: %w", notFound), true},
		"another one":     {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "lab"), false},
		"another kind":    {apierrors.NewNotFound(jobs, "hpc"), false},
		"another error":   {apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "hpc", nil), false},
		"a plain error":   {errors.New("namespaces hpc not found"), false},
		"none":            {nil, false},
		"without details": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := namespaceMissing(c.err, "hpc"); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
