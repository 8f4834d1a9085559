package auth_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/dashboard/auth"
)

var (
	annPerson = &auth.Person{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"all"}}}
	list      = authorizationv1.ResourceAttributes{Group: "minifleet.dev", Resource: "fleetminiclusters", Verb: "list"}
)

func in(namespace string) authorizationv1.ResourceAttributes {
	attrs := list
	attrs.Namespace = namespace
	return attrs
}

// allowIn allows everything in these namespaces; "" is the whole cluster.
func allowIn(namespaces ...string) func(authorizationv1.SubjectAccessReviewSpec) bool {
	allowed := map[string]bool{}
	for _, n := range namespaces {
		allowed[n] = true
	}
	return func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		return allowed[spec.ResourceAttributes.Namespace]
	}
}

func TestAllowed(t *testing.T) {
	w := newWorld(t)
	w.reviews.SetAllow(allowIn("a"))
	for range 3 {
		for namespace, want := range map[string]bool{"a": true, "b": false, "": false} {
			if got, err := w.Allowed(t.Context(), annPerson, in(namespace)); got != want || err != nil {
				t.Errorf("%q: got %v, %v", namespace, got, err)
			}
		}
	}
	reviews := w.reviews.AccessReviews()
	if len(reviews) != 3 {
		t.Errorf("got %d reviews", len(reviews))
	}
	attrs := *reviews[0].ResourceAttributes
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"all"}},
		ResourceAttributes: &attrs,
	}
	if diff := cmp.Diff(want, reviews[0]); diff != "" {
		t.Error(diff)
	}
}

func TestRightsEndInSeconds(t *testing.T) {
	w := newWorld(t)
	w.reviews.SetAllow(allowIn("a"))
	allowed := func(want bool) {
		t.Helper()
		if got, err := w.Allowed(t.Context(), annPerson, in("a")); got != want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
	allowed(true)
	w.reviews.SetAllow(nil)
	w.clock.advance(4999 * time.Millisecond)
	allowed(true)
	w.clock.advance(time.Millisecond)
	allowed(false)
	w.reviews.SetAllow(allowIn("a"))
	w.clock.advance(5 * time.Second)
	allowed(true)
}

func TestErrorDenies(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"fails": func(w *world) { w.reviews.SetErr(errBroken) },
		"hangs": func(w *world) { w.reviews.SetHang(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reviews.SetAllow(allowIn("", "a"))
			fail(w)
			if got, err := w.Allowed(t.Context(), annPerson, in("a")); got || !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := w.Scope(t.Context(), annPerson, list, []string{"a"}); !got.None() || !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	w := newWorld(t)
	w.reviews.SetAllow(allowIn("", "a"))
	for _, nobody := range []*auth.Person{nil, {}} {
		if got, err := w.Allowed(t.Context(), nobody, in("a")); got || !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("got %v, %v", got, err)
		}
		if got, err := w.Scope(t.Context(), nobody, list, nil); !got.None() || !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

// Whatever an authorizer may decide by makes it another question.
func TestAnswersAreNotMixedUp(t *testing.T) {
	people := []*auth.Person{
		annPerson,
		{Name: "bob", UID: "1", Groups: []string{"dev"}, Extra: annPerson.Extra},
		{Name: "ann", UID: "2", Groups: []string{"dev"}, Extra: annPerson.Extra},
		{Name: "ann", UID: "1", Groups: []string{"ops"}, Extra: annPerson.Extra},
		{Name: "ann", UID: "1", Groups: []string{"dev", "ops"}, Extra: annPerson.Extra},
		{Name: "ann", UID: "1", Groups: []string{`dev" "ops`}, Extra: annPerson.Extra},
		{Name: "ann", UID: "1", Groups: []string{"dev"}},
		{Name: "ann", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"a", "ll"}}},
	}
	questions := []authorizationv1.ResourceAttributes{{}}
	fields := reflect.TypeFor[authorizationv1.ResourceAttributes]()
	for i := range fields.NumField() {
		var attrs authorizationv1.ResourceAttributes
		switch field := reflect.ValueOf(&attrs).Elem().Field(i); field.Kind() {
		case reflect.String:
			field.SetString("x")
		default:
			field.Set(reflect.New(field.Type().Elem()))
		}
		questions = append(questions, attrs)
	}
	for _, value := range []string{"a", "b"} {
		questions = append(questions, authorizationv1.ResourceAttributes{
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: value},
		}, authorizationv1.ResourceAttributes{
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: value}}},
		})
	}
	questions = append(questions, authorizationv1.ResourceAttributes{Name: "\xff"}, authorizationv1.ResourceAttributes{Name: "\xfe"})
	w := newWorld(t)
	for range 2 {
		for _, p := range people {
			for _, q := range questions {
				q.FieldSelector, q.LabelSelector = q.FieldSelector.DeepCopy(), q.LabelSelector.DeepCopy()
				if _, err := w.Allowed(t.Context(), p, q); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got, want := len(w.reviews.AccessReviews()), len(people)*len(questions); got != want {
		t.Errorf("got %d reviews of %d questions", got, want)
	}
}

func TestScope(t *testing.T) {
	for name, c := range map[string]struct {
		allow      []string
		namespaces []string
		want       auth.Scope
		reviews    int
	}{
		"everywhere":            {[]string{""}, []string{"a", "b"}, auth.Scope{All: true}, 1},
		"nowhere":               {nil, []string{"a", "b"}, auth.Scope{}, 3},
		"in one":                {[]string{"a"}, []string{"a", "b"}, auth.ScopeOf("a"), 3},
		"in one without things": {[]string{"c"}, []string{"a", "b"}, auth.Scope{}, 3},
		"named twice":           {[]string{"a"}, []string{"a", "a"}, auth.ScopeOf("a"), 2},
		"nothing asked":         {[]string{"a"}, nil, auth.Scope{}, 1},
		"empty name":            {[]string{"a"}, []string{"", "a"}, auth.ScopeOf("a"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reviews.SetAllow(allowIn(c.allow...))
			for range 2 {
				got, err := w.Scope(t.Context(), annPerson, in("elsewhere"), c.namespaces)
				if err != nil || !got.Equal(c.want) || got.None() != c.want.None() {
					t.Errorf("got %+v, %v; want %+v", got, err, c.want)
				}
			}
			if got := len(w.reviews.AccessReviews()); got != c.reviews {
				t.Errorf("got %d reviews, want %d", got, c.reviews)
			}
		})
	}
}

func TestScopeHas(t *testing.T) {
	for name, c := range map[string]struct {
		scope auth.Scope
		want  map[string]bool
	}{
		"none":  {auth.Scope{}, map[string]bool{"a": false, "": false}},
		"some":  {auth.ScopeOf("a"), map[string]bool{"a": true, "b": false, "": false}},
		"every": {auth.Scope{All: true}, map[string]bool{"a": true, "b": true, "": true}},
	} {
		got := map[string]bool{}
		for namespace := range c.want {
			got[namespace] = c.scope.Has(namespace)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// counting knows how many reviews run at once; one namespace fails.
type counting struct {
	auth.Reviews
	mu            sync.Mutex
	running, most int
	total         int
	fail          string
}

func (c *counting) ReviewAccess(
	_ context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	c.mu.Lock()
	c.running++
	c.total++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	if spec.ResourceAttributes.Namespace == c.fail && c.fail != "" {
		return authorizationv1.SubjectAccessReviewStatus{}, errBroken
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.ResourceAttributes.Namespace != ""}, nil
}

func TestScopeIsBounded(t *testing.T) {
	var namespaces []string
	for i := range 200 {
		namespaces = append(namespaces, fmt.Sprintf("n%03d", i))
	}
	reviews := &counting{}
	w := newWorld(t, func(o *auth.Options) { o.Reviews, o.ReviewTimeout = reviews, 500*time.Millisecond })
	if got, err := w.Scope(t.Context(), annPerson, list, namespaces); err != nil || !got.Equal(auth.ScopeOf(namespaces...)) {
		t.Errorf("got %v, %v", got, err)
	}
	if reviews.most > 16 {
		t.Errorf("got %d at once", reviews.most)
	}

	failing := &counting{fail: "n010"}
	w = newWorld(t, func(o *auth.Options) { o.Reviews, o.ReviewTimeout = failing, 500*time.Millisecond })
	if got, err := w.Scope(t.Context(), annPerson, list, namespaces); !got.None() || !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("got %v, %v", got, err)
	}
	if failing.total > 100 {
		t.Errorf("got %d reviews after one has failed", failing.total)
	}
}

func TestSameQuestionIsAskedOnce(t *testing.T) {
	reviews := &counting{}
	w := newWorld(t, func(o *auth.Options) { o.Reviews, o.ReviewTimeout = reviews, 500*time.Millisecond })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := w.Allowed(t.Context(), annPerson, in("a")); !got || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	all.Wait()
	if reviews.total != 1 {
		t.Errorf("got %d reviews", reviews.total)
	}
}

// odd answers as no test's API server does by itself, when it is let.
type odd struct {
	auth.Reviews
	asked, answer chan struct{}
}

func (o odd) ReviewToken(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
	return authenticationv1.TokenReviewStatus{User: ann}, nil
}

func (o odd) ReviewAccess(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	if o.asked != nil {
		o.asked <- struct{}{}
		<-o.answer
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: spec.ResourceAttributes.Namespace == "denied"}, ctx.Err()
}

func TestOddAnswers(t *testing.T) {
	w := newWorld(t, func(o *auth.Options) { o.Reviews = odd{} })
	if got, err := w.Allowed(t.Context(), annPerson, in("denied")); got || err != nil {
		t.Errorf("allowed and denied: got %v, %v", got, err)
	}
	wantProblem(t, w.get(bearer(annToken)), 401)
}

// The one whose request started the review disconnects; the others still get its answer.
func TestAskerDisconnects(t *testing.T) {
	reviews := odd{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	w := newWorld(t, func(o *auth.Options) { o.Reviews, o.ReviewTimeout = reviews, 500*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.Allowed(ctx, annPerson, in("a"))
		done <- err
	}()
	<-reviews.asked
	cancel()
	if err := <-done; !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	close(reviews.answer)
	if got, err := w.Allowed(t.Context(), annPerson, in("a")); !got || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := w.Allowed(ctx, annPerson, in("b")); got || !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("got %v, %v", got, err)
	}
	if got := len(reviews.asked); got != 0 {
		t.Errorf("%d more reviews", got)
	}
	if got := w.logged.String(); got != "" {
		t.Errorf("logged %s", got)
	}
}

func TestKeptAnswersAreBounded(t *testing.T) {
	w := newWorld(t, func(o *auth.Options) { o.MaxAccess = 10 })
	for i := range 20 {
		_, _ = w.Allowed(t.Context(), annPerson, in(fmt.Sprint(i)))
	}
	before := len(w.reviews.AccessReviews())
	_, _ = w.Allowed(t.Context(), annPerson, in("19"))
	_, _ = w.Allowed(t.Context(), annPerson, in("0"))
	if got := len(w.reviews.AccessReviews()) - before; got != 1 {
		t.Errorf("got %d reviews, want one of what was dropped", got)
	}
}
