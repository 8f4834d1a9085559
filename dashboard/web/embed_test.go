package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

type answer struct {
	Status                             int
	Type, Encoding, CacheControl, Body string
}

func TestHandler(t *testing.T) {
	built := fstest.MapFS{
		"index.html":          {Data: []byte("<!doctype html>")},
		"index.html.br":       {Data: []byte("index in brotli")},
		"assets/app-1a2b.js":  {Data: []byte("run()")},
		"assets/app.js.br":    {Data: []byte("of no file")},
		"icon.svg":            {Data: []byte("<svg/>")},
		"icon.svg.gz":         {Data: []byte("icon in gzip")},
		"placeholder.txt":     {Data: []byte("placeholder")},
		".vite/manifest.json": {Data: []byte("{}")},
	}
	page := answer{Status: 200, Type: "text/html; charset=utf-8", CacheControl: "no-cache", Body: "<!doctype html>"}
	compressed := page
	compressed.Encoding, compressed.Body = "br", "index in brotli"
	absent := answer{Status: 404, Type: "text/plain; charset=utf-8", Body: "404 page not found\n"}

	cases := map[string]struct {
		files                fstest.MapFS
		method, path, accept string
		want                 answer
	}{
		"the page":                         {built, "GET", "/", "", page},
		"the page in brotli":               {built, "GET", "/", "gzip, deflate, br, zstd", compressed},
		"a route of the page":              {built, "GET", "/miniclusters/physics/hpcg", "", page},
		"a name that climbs":               {built, "GET", "/../../etc/passwd", "", page},
		"a directory":                      {built, "GET", "/assets", "", page},
		"a file of tools":                  {built, "GET", "/.vite/manifest.json", "", page},
		"a hashed file":                    {built, "GET", "/assets/app-1a2b.js", "br", answer{Status: 200, Type: "text/javascript; charset=utf-8", CacheControl: immutable, Body: "run()"}},
		"a hashed file of another version": {built, "GET", "/assets/app-0000.js", "", absent},
		"a path of the API":                {built, "GET", "/api/v1/nothing", "", absent},
		"an encoding that is refused":      {built, "GET", "/icon.svg", "gzip;q=0", answer{Status: 200, Type: "image/svg+xml", CacheControl: "no-cache", Body: "<svg/>"}},
		"an encoding with a weight":        {built, "GET", "/icon.svg", "br;q=1, gzip;q=0.5", answer{Status: 200, Type: "image/svg+xml", Encoding: "gzip", CacheControl: "no-cache", Body: "icon in gzip"}},
		"HEAD":                             {built, "HEAD", "/", "", answer{Status: 200, Type: page.Type, CacheControl: "no-cache"}},
		"a write":                          {built, "POST", "/", "", answer{Status: 405, Type: "text/plain; charset=utf-8", Body: "method not allowed\n"}},
		"without the page":                 {fstest.MapFS{"placeholder.txt": {}}, "GET", "/", "", answer{Status: 404, Type: "text/plain; charset=utf-8", CacheControl: "no-store", Body: notBuilt + "\n"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(c.method, "http://fleet.example"+c.path, nil)
			request.Header.Set("Accept-Encoding", c.accept)
			recorder := httptest.NewRecorder()
			handler(c.files).ServeHTTP(recorder, request)
			header := recorder.Header()
			got := answer{recorder.Code, header.Get("Content-Type"), header.Get("Content-Encoding"), header.Get("Cache-Control"), recorder.Body.String()}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHandlerRevalidates(t *testing.T) {
	served := handler(fstest.MapFS{"index.html": {Data: []byte("page")}, "index.html.br": {Data: []byte("brotli")}})
	get := func(accept, etag string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("Accept-Encoding", accept)
		request.Header.Set("If-None-Match", etag)
		recorder := httptest.NewRecorder()
		served.ServeHTTP(recorder, request)
		return recorder
	}
	plain, brotli := get("", "").Header().Get("ETag"), get("br", "").Header().Get("ETag")
	if plain == "" || plain == brotli {
		t.Errorf("ETags %q and %q: each encoding needs one of its own", plain, brotli)
	}
	if code := get("", "W/"+plain).Code; code != http.StatusNotModified {
		t.Errorf("status %d for what the client has", code)
	}
	if code := get("br", plain).Code; code != http.StatusOK {
		t.Errorf("status %d for another encoding than what the client has", code)
	}
}

func TestPlaceholder(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	recorder := httptest.NewRecorder()
	Handler().ServeHTTP(recorder, request)
	if Built() != strings.Contains(recorder.Body.String(), "<!doctype html>") {
		t.Errorf("Built() is %v, and the page is %q", Built(), recorder.Body.String())
	}
}
