package fetch_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

func prefixes(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	out, err := fetch.ParsePrefixes(texts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRefusedAddresses(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	srv := serve(t, repo, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.Server.URL, "http://"), ":")
	by := func(host string) string { return "http://" + host + ":" + port + "/.git" }
	refused := prefixes(t, fetch.DefaultRefused()...)
	for name, tc := range map[string]struct {
		url     string
		refused []netip.Prefix
		allowed []string
		says    string
	}{
		"loopback":                     {by("127.0.0.1"), refused, nil, "an address in 127.0.0.0/8"},
		"by a name":                    {by("localhost"), refused, nil, "an address in "},
		"unspecified":                  {by("0.0.0.0"), refused, nil, "0.0.0.0/8"},
		"unspecified, IPv6":            {by("[::]"), refused, nil, "::/128"},
		"IPv4-mapped":                  {by("[::ffff:127.0.0.1]"), refused, nil, "127.0.0.0/8"},
		"IPv4-mapped, in hexadecimals": {by("[::ffff:7f00:1]"), refused, nil, "127.0.0.0/8"},
		"NAT64":                        {by("[64:ff9b::127.0.0.1]"), refused, nil, "127.0.0.0/8"},
		"6to4":                         {by("[2002:7f00:1::1]"), refused, nil, "127.0.0.0/8"},
		"the metadata of a cloud":      {"http://169.254.169.254/x", refused, nil, "169.254.0.0/16"},
		"link-local":                   {"http://[fe80::1]/x", refused, nil, "fe80::/10"},
		"multicast":                    {"http://224.0.0.1/x", refused, nil, "224.0.0.0/4"},
		"one of the hub's Services":    {"https://10.96.0.1/x", prefixes(t, "10.96.0.0/12"), nil, "10.96.0.0/12"},
		"allowed again":                {by("127.0.0.1"), refused, []string{"127.0.0.0/8"}, ""},
		"another one is allowed":       {by("127.0.0.1"), refused, []string{"127.0.0.2"}, "127.0.0.0/8"},
		"nothing is refused":           {by("127.0.0.1"), nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv.forget()
			fetcher := &fetch.Fetcher{Network: fetch.Network{Refused: tc.refused, Allowed: prefixes(t, tc.allowed...)}}
			_, err := fetcher.Fetch(t.Context(), fetch.Request{URL: tc.url})
			if tc.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, fetch.ReasonURLRefused)
			if err != nil && (!strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "--git-allowed-cidrs")) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
			if got := srv.seen(); len(got) > 0 {
				t.Errorf("the server was asked: %v", got)
			}
		})
	}
}

func TestURLPrefixes(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	srv := serve(t, repo, nil)
	base := srv.Server.URL
	for name, tc := range map[string]struct {
		prefix, url string
		allowed     bool
	}{
		"the host":                {base, srv.URL, true},
		"the host, with a slash":  {base + "/", srv.URL, true},
		"the repository":          {srv.URL, srv.URL, true},
		"a folder above":          {base + "/.git", srv.URL + "/", true},
		"another host":            {"https://git.example.org", srv.URL, false},
		"a host that begins so":   {"https://git.example.org", "https://git.example.org.evil.example/x", false},
		"another port":            {"http://127.0.0.1:1", srv.URL, false},
		"another scheme":          {strings.Replace(base, "http:", "https:", 1), srv.URL, false},
		"another folder":          {base + "/team", srv.URL, false},
		"a folder that begins so": {base + "/.gi", srv.URL, false},
		"up and down":             {base + "/team", base + "/team/../.git", false},
		"up and down, escaped":    {base + "/team", base + "/team/%2e%2e/.git", false},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := fetch.ParseURLPrefixes([]string{tc.prefix})
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&fetch.Fetcher{Network: fetch.Network{URLPrefixes: allowed}}).Fetch(t.Context(), fetch.Request{URL: tc.url})
			if tc.allowed {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, fetch.ReasonURLRefused)
			if err != nil && !strings.Contains(err.Error(), "--git-allowed-url-prefixes") {
				t.Error(err)
			}
		})
	}
}

// A redirect leads to no other folder than those that are allowed either.
func TestRedirectsStayWithinTheURLPrefixes(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/secret"+strings.TrimPrefix(r.URL.Path, "/team"), http.StatusFound)
	}))
	defer srv.Close()
	allowed, err := fetch.ParseURLPrefixes([]string{srv.URL + "/team"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&fetch.Fetcher{Network: fetch.Network{URLPrefixes: allowed}}).Fetch(t.Context(), fetch.Request{URL: srv.URL + "/team/x"})
	wantReason(t, err, fetch.ReasonURLRefused)
}

// A proxy is the administrator's choice: it may be at a refused address, and asking it for one is refused as far as the
// address is known here.
func TestThroughAProxy(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	srv := serve(t, repo, nil)
	asked := 0
	through := func(*http.Request) (*url.URL, error) {
		asked++
		return url.Parse(srv.Server.URL) // a server that is its own proxy
	}
	refused := prefixes(t, fetch.DefaultRefused()...)
	for name, tc := range map[string]struct {
		host    string
		refused bool
	}{"a name that is not known here": {"git.invalid", false}, "an address": {"169.254.169.254", true}, "a name of this machine": {"localhost", true}} {
		t.Run(name, func(t *testing.T) {
			srv.forget()
			fetcher := &fetch.Fetcher{Proxy: through, Network: fetch.Network{Refused: refused}}
			_, err := fetcher.Fetch(t.Context(), fetch.Request{URL: "http://" + tc.host + "/.git"})
			if tc.refused {
				wantReason(t, err, fetch.ReasonURLRefused)
			} else if err != nil {
				t.Error(err)
			}
			if got := srv.seen(); (len(got) == 0) != tc.refused {
				t.Errorf("the proxy was asked %v", got)
			}
		})
	}
	if asked == 0 {
		t.Error("the proxy was not asked for")
	}
}

func TestRangesAndPrefixesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "10.0.0.0/33", "example.org", "10.0.0.0-10.0.0.9"} {
		if _, err := fetch.ParsePrefixes([]string{text}); err == nil {
			t.Errorf("range %q is accepted", text)
		}
	}
	for _, text := range []string{"", "git.example.org", "git://git.example.org", "ssh://git:x@git.example.org", "https://user@git.example.org", "https://git.example.org/?a"} {
		if _, err := fetch.ParseURLPrefixes([]string{text}); err == nil {
			t.Errorf("URL prefix %q is accepted", text)
		}
	}
}
