package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/dashboard/auth"
)

var errBroken = errors.New("broken with token-of-ann in it")

func TestBearer(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		err     error
		want    int
	}{
		"valid":                       {headers: []string{bearer(annToken)}, want: 200},
		"scheme in lower case":        {headers: []string{"Authorization: bearer " + annToken}, want: 200},
		"none":                        {want: 401},
		"unknown":                     {headers: []string{bearer("other")}, want: 401},
		"empty":                       {headers: []string{"Authorization: Bearer "}, want: 401},
		"other scheme":                {headers: []string{"Authorization: Basic " + annToken}, want: 401},
		"two":                         {headers: []string{bearer(annToken), bearer(bobToken)}, want: 401},
		"too long":                    {headers: []string{bearer(strings.Repeat("x", 1<<15))}, want: 401},
		"not a token":                 {headers: []string{bearer("a b")}, want: 401},
		"API server fails":            {headers: []string{bearer(annToken)}, err: errBroken, want: 503},
		"cookie that nobody has":      {headers: []string{"Cookie: " + cookie + "=x"}, want: 401},
		"cookie that is a token":      {headers: []string{"Cookie: " + cookie + "=" + annToken}, want: 401},
		"cookie sent twice":           {headers: []string{"Cookie: " + cookie + "=x", "Cookie: " + cookie + "=y"}, want: 401},
		"token in the query's stead":  {headers: []string{"X-Token: " + annToken}, want: 401},
		"impersonation is not obeyed": {headers: []string{bearer(bobToken), "Impersonate-User: ann"}, want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reviews.SetErr(c.err)
			answer := w.get(c.headers...)
			if c.want == http.StatusOK {
				wantStatus(t, answer, c.want)
				if strings.HasPrefix(name, "impersonation") && w.person.Name != "bob" {
					t.Errorf("got %s", w.person)
				}
				return
			}
			wantProblem(t, answer, c.want)
			if w.handled != 0 {
				t.Error("the handler was asked")
			}
		})
	}
}

func TestWrongAndMissingTokensLookAlike(t *testing.T) {
	w := newWorld(t)
	missing, wrong := w.get(), w.get(bearer("other"))
	if diff := cmp.Diff(missing.Header, wrong.Header); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(missing.Body.String(), wrong.Body.String()); diff != "" {
		t.Error(diff)
	}
	if missing.Header.Get("WWW-Authenticate") == "" {
		t.Error("401 wants WWW-Authenticate")
	}
}

func TestPerson(t *testing.T) {
	w := newWorld(t)
	w.get(bearer(annToken))
	want := &auth.Person{Name: "ann", UID: "1", Groups: ann.Groups, Extra: map[string][]string{"scopes": {"all"}}}
	if diff := cmp.Diff(want, w.person, cmpopts.IgnoreUnexported(auth.Person{})); diff != "" {
		t.Error(diff)
	}
	if w.person.Token() != annToken {
		t.Errorf("got token %q", w.person.Token())
	}
	text, _ := json.Marshal(w.person)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", w.person), "%+v": fmt.Sprintf("%+v", w.person), "%#v": fmt.Sprintf("%#v", w.person),
		"value": fmt.Sprintf("%+v %#v", *w.person, *w.person), "JSON": string(text),
	} {
		if strings.Contains(text, annToken) {
			t.Errorf("%s shows the token: %s", name, text)
		}
	}
}

func TestTokenReviewsAreKeptForSeconds(t *testing.T) {
	w := newWorld(t)
	reviews := func(want int) {
		t.Helper()
		if got := w.reviews.TokenReviews(); got != want {
			t.Errorf("got %d reviews, want %d", got, want)
		}
	}
	for range 5 {
		wantStatus(t, w.get(bearer(annToken)), 200)
		wantStatus(t, w.get(bearer("other")), 401)
	}
	reviews(2)
	w.clock.advance(9 * time.Second)
	w.reviews.Revoke(annToken)
	wantStatus(t, w.get(bearer(annToken)), 200)
	reviews(2)
	w.clock.advance(time.Second)
	wantStatus(t, w.get(bearer(annToken)), 401)
	reviews(3)
}

func TestErrorsAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.reviews.SetErr(errBroken)
	wantProblem(t, w.get(bearer(annToken)), 503)
	w.reviews.SetErr(nil)
	wantStatus(t, w.get(bearer(annToken)), 200)
	if got := w.logged.String(); strings.Contains(got, annToken) || got == "" {
		t.Errorf("logged %q", got)
	}
}

func TestHungAPIServer(t *testing.T) {
	w := newWorld(t)
	session := w.login(t, annToken)
	w.clock.advance(time.Minute)
	w.reviews.SetHang(true)
	begin := time.Now()
	wantProblem(t, w.get(bearer(bobToken)), 503)
	wantProblem(t, w.get(session), 503)
	wantProblem(t, w.sendLogin(bobToken), 503)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %s", took)
	}
	w.reviews.SetHang(false)
	wantStatus(t, w.get(session), 200)
}

func TestTokenThatEnds(t *testing.T) {
	w := newWorld(t)
	token := endingToken(w.clock.Now().Add(5 * time.Second))
	w.reviews.SetUser(token, ann)
	session := w.login(t, token)
	wantStatus(t, w.get(bearer(token)), 200)
	wantStatus(t, w.get(session), 200)
	p := w.person
	w.clock.advance(5 * time.Second)
	wantProblem(t, w.get(bearer(token)), 401)
	wantProblem(t, w.get(session), 401)
	if err := w.Recheck(t.Context(), p); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("got %v", err)
	}
}

// endingToken is a token that says when it ends, for a fake that does not verify it.
func endingToken(expires time.Time) string {
	payload := fmt.Sprintf(`{"exp":%d}`, expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
}

func TestRecheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   error
	}{
		"nothing has changed":    {func(*world) {}, nil},
		"token revoked":          {func(w *world) { w.reviews.Revoke(annToken) }, auth.ErrUnauthenticated},
		"token of somebody else": {func(w *world) { w.reviews.SetUser(annToken, bob) }, auth.ErrUnauthenticated},
		"API server fails":       {func(w *world) { w.reviews.SetErr(errBroken) }, auth.ErrUnavailable},
		"API server hangs":       {func(w *world) { w.reviews.SetHang(true) }, auth.ErrUnavailable},
		"no longer in the group": {func(w *world) { u := ann; u.Groups = u.Groups[:1]; w.reviews.SetUser(annToken, u) }, auth.ErrUnauthenticated},
		"groups in another order": {func(w *world) {
			u := ann
			u.Groups = []string{ann.Groups[1], ann.Groups[0]}
			w.reviews.SetUser(annToken, u)
		}, nil},
		"token only just reviewed": {func(w *world) { w.clock.advance(-13 * time.Second); w.reviews.SetErr(errBroken) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			session := w.login(t, annToken)
			var people []*auth.Person
			for _, header := range []string{session, bearer(annToken)} {
				wantStatus(t, w.get(header), 200)
				people = append(people, w.person)
			}
			w.clock.advance(14 * time.Second)
			c.change(w)
			for _, p := range people {
				if err := w.Recheck(t.Context(), p); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			}
		})
	}
}

func TestRecheckOfManyStreams(t *testing.T) {
	w := newWorld(t)
	wantStatus(t, w.get(bearer(annToken)), 200)
	before := w.reviews.TokenReviews()
	w.clock.advance(15 * time.Second)
	for range 100 {
		if err := w.Recheck(t.Context(), w.person); err != nil {
			t.Error(err)
		}
	}
	if got := w.reviews.TokenReviews() - before; got != 1 {
		t.Errorf("got %d reviews", got)
	}
}

func TestRecheckOfNobody(t *testing.T) {
	w := newWorld(t)
	for _, p := range []*auth.Person{nil, {Name: "ann"}} {
		if err := w.Recheck(t.Context(), p); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("got %v", err)
		}
	}
	if p, ok := auth.From(context.Background()); p != nil || ok {
		t.Errorf("got %v, %v", p, ok)
	}
}

func TestOptions(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*auth.Options){
		"no reviews":         func(o *auth.Options) { o.Reviews = nil },
		"no clock":           func(o *auth.Options) { o.Now = nil },
		"slow reviews":       func(o *auth.Options) { o.ReviewTimeout = 2 * time.Second },
		"long-lived reviews": func(o *auth.Options) { o.ReviewTTL = time.Minute },
		"long-lived access":  func(o *auth.Options) { o.AccessTTL = time.Minute },
		"negative":           func(o *auth.Options) { o.MaxSessions = -1 },
		"no requests":        func(o *auth.Options) { o.Requests.PerSecond = 1 },
		"issuer not https": func(o *auth.Options) {
			o.OIDC = &auth.OIDCOptions{IssuerURL: "http://a", RedirectURL: "https://b", ClientID: "c"}
		},
		"no client id": func(o *auth.Options) { o.OIDC = &auth.OIDCOptions{IssuerURL: "https://a", RedirectURL: "https://b"} },
	} {
		o := auth.Options{Reviews: w.reviews, Now: w.clock.Now}
		change(&o)
		if _, err := auth.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
