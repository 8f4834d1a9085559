package server_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minifleet/minifleet/internal/cli/server"
)

func noWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func clientOf(t *testing.T, handler http.HandlerFunc) *server.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := server.New(server.Settings{URL: s.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shown is an event of a log in a few characters.
func shown(e server.LogEvent) string {
	switch {
	case e.Lost > 0:
		return fmt.Sprintf("lost %d", e.Lost)
	case e.MayBeLost:
		return "may be lost"
	case e.End != "":
		return "end: " + e.End
	}
	return e.Text
}

func line(second int, text string) string {
	return fmt.Sprintf(`{"time":"2026-05-04T12:00:%02d.5Z","text":%q}`, second, text) + "\n"
}

func TestLogs(t *testing.T) {
	cases := map[string]struct {
		options server.LogOptions
		answers []string // one for each request; "503" and "404" are codes
		want    []string
		queries []string
		err     string
	}{
		"to its end": {
			options: server.LogOptions{Member: "alpine", Run: "3f2a", Rank: 3, Container: "c", Previous: true, Tail: 10},
			answers: []string{line(1, "a") + line(2, "b")}, want: []string{"a", "b"},
			queries: []string{"container=c&member=alpine&previous=true&rank=3&run=3f2a&tail=10"},
		},
		"followed to its end": {
			options: server.LogOptions{Rank: -1, Tail: -1, Follow: true},
			answers: []string{line(1, "a") + `{"end":"Succeeded"}` + "\n"}, want: []string{"a", "end: Succeeded"}, queries: []string{"follow=true"},
		},
		"connected again": {
			options: server.LogOptions{Rank: -1, Tail: -1, Follow: true},
			answers: []string{line(1, "a") + line(2, "b") + line(2, "c"), "503", line(1, "a") + line(2, "b") + line(2, "c") + line(2, "d") + line(3, "e") + `{"end":"Failed"}`},
			want:    []string{"a", "b", "c", "d", "e", "end: Failed"}, queries: []string{"follow=true", "follow=true&tail=1000", "follow=true&tail=1000"},
		},
		"connected again after too long": {
			options: server.LogOptions{Rank: -1, Tail: -1, Follow: true},
			answers: []string{line(1, "a"), line(8, "y") + line(9, "z") + `{"end":"e"}`}, want: []string{"a", "may be lost", "y", "z", "end: e"},
			queries: []string{"follow=true", "follow=true&tail=1000"},
		},
		"lost lines": {
			options: server.LogOptions{Rank: -1, Tail: -1, Follow: true},
			answers: []string{line(1, "a"), `{"lost":7}` + "\n" + line(8, "y") + `{"end":"e"}`}, want: []string{"a", "lost 7", "y", "end: e"},
			queries: []string{"follow=true", "follow=true&tail=1000"},
		},
		"not followed, the server is busy": {options: server.LogOptions{Rank: -1, Tail: -1}, answers: []string{"503"}, queries: []string{""}, err: "the dashboard answers 503"},
		"not there":                        {options: server.LogOptions{Rank: -1, Tail: -1, Follow: true}, answers: []string{"404"}, queries: []string{"follow=true"}, err: "FleetMiniCluster hpc/lammps: there is no such object or run"},
		"no log":                           {options: server.LogOptions{Rank: -1, Tail: -1}, answers: []string{"<html>"}, queries: []string{""}, err: "is no log: is --server right?"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var queries []string
			client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/miniclusters/hpc/lammps/logs" || r.Header.Get("Authorization") != "Bearer t" {
					t.Errorf("asked for %s with %s", r.URL.Path, r.Header.Get("Authorization"))
				}
				answer := c.answers[min(len(queries), len(c.answers)-1)]
				queries = append(queries, r.URL.RawQuery)
				switch answer {
				case "404":
					http.NotFound(w, r)
				case "503":
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					_, _ = w.Write([]byte(answer))
				}
			})
			var got []string
			err := client.Logs(t.Context(), "hpc", "lammps", c.options, noWait, func(e server.LogEvent) error {
				got = append(got, shown(e))
				return nil
			})
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %s", err, c.err)
			}
			if diff := cmp.Diff([][]string{c.want, c.queries}, [][]string{got, queries}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/api/v1/miniclusters/hpc/lammps/diff" && r.URL.Path != "/api/v1/miniclusters/hpc/lammps/diff" {
			t.Error(r.URL.Path)
		}
		_, _ = w.Write([]byte(`{"items":[{"member":"alpine","kind":"Job","namespace":"hpc","name":"lammps","state":"Same"}]}`))
	})
	got, err := client.Diff(t.Context(), "hpc", "lammps")
	if err != nil || len(got) != 1 || got[0].State != server.Same {
		t.Errorf("%v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		code int
		body string
		err  string
	}{
		"no token":  {401, "", "does not accept the token: it may have expired"},
		"no right":  {403, `{"title":"Forbidden","detail":"no \u001b[2Jright"}`, "you may not read this (no \uFFFD[2Jright): ask for the right to get fleetminiclusters"},
		"elsewhere": {302, "", "redirects to https://evil.example.org/: give the address that it is at"},
		"too many":  {429, "", "429 Too Many Requests: try again later"},
		"bad":       {400, `{"title":"Bad Request"}`, "the dashboard answers 400 Bad Request (Bad Request)"},
		"no JSON":   {200, "<html>", "answer cannot be read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.code == http.StatusFound {
					w.Header().Set("Location", "https://evil.example.org/")
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			if _, err := client.Diff(t.Context(), "hpc", "lammps"); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %s", err, c.err)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	cases := map[string]string{ // address: what is wrong with it
		"https://fleet.example.org":       "",
		"https://fleet.example.org/base/": "",
		"http://localhost:8080":           "",
		"http://127.0.0.1":                "",
		"http://fleet.example.org":        "is not encrypted",
		"http://localhost.example.org":    "is not encrypted",
		"fleet.example.org":               "is no address of a dashboard",
		"ftp://fleet":                     "is no address of a dashboard",
		"https://a:b@fleet":               "give scheme, host and path only",
		"https://fleet/#/":                "",
		"https://fleet/#/miniclusters":    "give scheme, host and path only",
		"https://fl eet":                  "--server: parse",
	}
	for address, want := range cases {
		_, err := server.ParseURL(address)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		settings  server.Settings
		want, err string
	}{
		"given":             {server.Settings{Token: "given", Config: &rest.Config{BearerToken: "other"}}, "Bearer given", ""},
		"of the kubeconfig": {server.Settings{Config: &rest.Config{BearerToken: "own"}}, "Bearer own", ""},
		"of a file":         {server.Settings{Config: &rest.Config{BearerTokenFile: file}}, "Bearer of-file", ""},
		"of a plugin": {server.Settings{Config: &rest.Config{ExecProvider: &clientcmdapi.ExecConfig{
			Command: "sh", Args: []string{"-c", `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-plugin"}}'`},
			APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}}, "Bearer of-plugin", ""},
		"a certificate only":  {server.Settings{Config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}}, "", "kubectl create token"},
		"no kubeconfig":       {server.Settings{}, "", "give --token or set MINIFLEET_TOKEN"},
		"acting as another":   {server.Settings{Config: &rest.Config{BearerToken: "own", Impersonate: rest.ImpersonationConfig{UserName: "a"}}}, "", "--as"},
		"no file of CAs":      {server.Settings{Token: "t", CAFile: "none"}, "", "--server-ca: open none"},
		"no CAs in the file":  {server.Settings{Token: "t", CAFile: file}, "", "holds no certificate in PEM"},
		"never a password":    {server.Settings{Config: &rest.Config{BearerToken: "own", Username: "u", Password: "p"}}, "Bearer own", ""},
		"a password only":     {server.Settings{Config: &rest.Config{Username: "u", Password: "p"}}, "", "no bearer token"},
		"a token, and a cert": {server.Settings{Config: &rest.Config{BearerToken: "own", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}}, "Bearer own", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header.Get("Authorization")
				_, _ = w.Write([]byte("{}"))
			}))
			defer s.Close()
			c.settings.URL = s.URL
			client, err := server.New(c.settings)
			if err == nil {
				_, err = client.Diff(t.Context(), "a", "b")
			}
			if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("sent %q, %v", got, err)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	body := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	for caFile, want := range map[string]bool{"": false, file: true} {
		client, err := server.New(server.Settings{URL: s.URL, Token: "t", CAFile: caFile})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = client.Diff(t.Context(), "a", "b"); (err == nil) != want {
			t.Errorf("with %q: %v", caFile, err)
		}
	}
}
