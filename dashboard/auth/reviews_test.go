package auth_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/minifleet/minifleet/dashboard/auth"
)

func TestReviewsOfClient(t *testing.T) {
	client := fake.NewClientset()
	var fail error
	client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: review.Spec.Token == annToken, User: ann}
		return true, review, fail
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		review.Status.Allowed = review.Spec.User == "ann"
		return true, review, fail
	})
	reviews := auth.ReviewsOf(client)

	token, err := reviews.ReviewToken(t.Context(), annToken)
	if diff := cmp.Diff(authenticationv1.TokenReviewStatus{Authenticated: true, User: ann}, token); diff != "" || err != nil {
		t.Error(diff, err)
	}
	access, err := reviews.ReviewAccess(t.Context(), authorizationv1.SubjectAccessReviewSpec{User: "ann"})
	if !access.Allowed || err != nil {
		t.Errorf("got %v, %v", access, err)
	}

	fail = errBroken
	token, err = reviews.ReviewToken(t.Context(), annToken)
	if token.Authenticated || !errors.Is(err, errBroken) {
		t.Errorf("got %v, %v", token, err)
	}
	access, err = reviews.ReviewAccess(t.Context(), authorizationv1.SubjectAccessReviewSpec{User: "ann"})
	if access.Allowed || !errors.Is(err, errBroken) {
		t.Errorf("got %v, %v", access, err)
	}
}
