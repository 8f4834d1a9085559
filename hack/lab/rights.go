package lab

import (
	"cmp"
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// NeverAllowed returns those of the requests of the cluster's audit log that were refused for want of a right, one line
// each. An API server that has not read a new role yet refuses what it allows a moment later. So a refusal does not count if
// the same was allowed at another time, or if the user may do it now: a watch is in the log only when it has ended.
func (c *Cluster) NeverAllowed(ctx context.Context, events []AuditEvent) ([]string, error) {
	type request struct{ user, verb, group, resource, subresource, namespace, path string }
	refused, allowed := map[request]*AuditEvent{}, map[request]bool{}
	for i := range events {
		e := &events[i]
		r := request{user: e.User.Username, verb: e.Verb}
		if o := e.Object; o != nil {
			r.group, r.resource, r.subresource, r.namespace = o.Group, o.Resource, o.Subresource, o.Namespace
		} else {
			r.path, _, _ = strings.Cut(e.RequestURI, "?")
		}
		if e.Forbidden() {
			refused[r] = e
		} else {
			allowed[r] = true
		}
	}
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	var never []string
	for r, e := range refused {
		if allowed[r] {
			continue
		}
		review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: r.user, Groups: e.User.Groups}}
		if o := e.Object; o != nil {
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: o.Name,
			}
		} else {
			review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: r.verb, Path: r.path}
		}
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			never = append(never, c.Name()+": "+r.user+" may not "+r.verb+" "+e.RequestURI+": "+e.Annotations["authorization.k8s.io/reason"])
		}
	}
	slices.SortFunc(never, cmp.Compare[string])
	return never, nil
}
