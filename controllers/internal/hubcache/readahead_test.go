package hubcache

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pages is a server of three pages, which notes what it was asked for.
type pages struct {
	mu     sync.Mutex
	asked  []string
	broken bool // the next request for the second page is not answered
	news   chan string
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("continue")
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.URL.RawQuery)
	breaks := p.broken && token == "2"
	p.broken = p.broken && !breaks
	p.mu.Unlock()
	p.news <- token
	if breaks {
		panic(http.ErrAbortHandler)
	}
	next := map[string]string{"": `"continue":"2",`, "2": `"continue":"3",`}[token]
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","items":[{"metadata":{"name":"of page %s"}}],"kind":"List","metadata":{%s"resourceVersion":"7"}}`+"\n", token, next)
}

func (p *pages) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func serve(t *testing.T, p *pages) (get func(method, query string) string, ahead *readAhead) {
	t.Helper()
	p.news = make(chan string, 20)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	client := ReadAhead(server.Client())
	return func(method, query string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/list?"+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}, client.Transport.(*readAhead)
}

func TestTheNextPageIsAskedForAhead(t *testing.T) {
	var p pages
	get, _ := serve(t, &p)
	first := get(http.MethodGet, "limit=1&resourceVersion=5&resourceVersionMatch=NotOlderThan")
	if token := <-p.news; token != "" {
		t.Fatalf("asked for %q first", token)
	}
	if token := <-p.news; token != "2" { // which nobody has asked for
		t.Fatalf("asked for %q ahead", token)
	}
	second := get(http.MethodGet, "continue=2&limit=1")
	third := get(http.MethodGet, "continue=3&limit=1")
	for want, body := range map[string]string{"of page ": first, "of page 2": second, "of page 3": third} {
		if !strings.Contains(body, `"`+want+`"`) {
			t.Errorf("%s: %s", want, body)
		}
	}
	want := []string{
		"GET limit=1&resourceVersion=5&resourceVersionMatch=NotOlderThan", "GET continue=2&limit=1", "GET continue=3&limit=1",
	}
	if got := p.all(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAPageThatCouldNotBeReadAheadIsAskedForAgain(t *testing.T) {
	p := pages{broken: true}
	get, _ := serve(t, &p)
	get(http.MethodGet, "limit=1")
	<-p.news
	<-p.news // and is not answered
	if body := get(http.MethodGet, "continue=2&limit=1"); !strings.Contains(body, "of page 2") {
		t.Errorf("got %s", body)
	}
}

func TestWhatIsNoPageIsNotReadAhead(t *testing.T) {
	for _, tc := range []struct{ method, query string }{
		{http.MethodGet, ""}, {http.MethodGet, "limit=1&watch=true"}, {http.MethodPost, "limit=1"}, {http.MethodGet, "continue=3&limit=1"},
	} {
		var p pages
		get, ahead := serve(t, &p)
		get(tc.method, tc.query)
		ahead.mu.Lock()
		if len(ahead.pages) > 0 {
			t.Errorf("%v: got %v", tc, ahead.pages)
		}
		ahead.mu.Unlock()
	}
}

func TestContinueOf(t *testing.T) {
	long := `"` + strings.Repeat("x", 2*tail) + `"`
	for name, tc := range map[string]struct{ kind, body, want string }{
		"metadata last":            {"application/json", `{"items":[` + long + `],"kind":"L","metadata":{"continue":"t","remainingItemCount":3}}`, "t"},
		"the last page":            {"application/json; charset=utf-8", `{"items":[],"metadata":{"continue":"","resourceVersion":"1"}}`, ""},
		"metadata first":           {"application/json", `{"metadata":{"continue":"t"},"items":[` + long + `]}`, ""},
		"text that looks like it":  {"application/json", `{"metadata":{"continue":"t"},"items":["\"metadata\":{\"continue\":\"no\"}",` + long + `]}`, ""},
		"an item's own is none":    {"application/json", `{"metadata":{"continue":"t"},"items":[` + long + `,{"metadata":{"name":"a"}}]}`, ""},
		"not JSON":                 {"application/vnd.kubernetes.protobuf", `"metadata":{"continue":"t"}`, ""},
		"no JSON after all":        {"application/json", `"metadata":{"continue":`, ""},
		"nothing":                  {"application/json", ``, ""},
		"said to be nothing known": {"", `{"metadata":{"continue":"t"}}`, ""},
	} {
		answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {tc.kind}}}
		if got := continueOf(answer, []byte(tc.body)); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := continueOf(&http.Response{StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}}, []byte(`{"metadata":{"continue":"t"}}`)); got != "" {
		t.Errorf("a refusal is read ahead of: %q", got)
	}
}
