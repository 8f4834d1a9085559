package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/internal/cli/server"
)

// dashboard answers logs and diffs, and notes what it is asked for.
func fakeDashboard(t *testing.T, code int, answer string) (address string, asked *[]string) {
	t.Helper()
	var requests []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Header.Get("Authorization")+" "+r.URL.RequestURI())
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s.URL, &requests
}

func differences(t *testing.T, items ...server.Difference) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestDashboardCommands(t *testing.T) {
	same := server.Difference{Member: "alpine", Kind: "Secret", Namespace: "hpc", Name: "lammps-curve", State: server.Same}
	different := server.Difference{
		Member: "alpine", Kind: "Job", Namespace: "hpc", Name: "lammps", State: server.Different,
		Desired: "kind: Job\nspec:\n  parallelism: 4\n", Live: "kind: Job\nspec:\n  parallelism: 2\n  note: " + steer + "\n",
	}
	missing := server.Difference{Member: "basalt", Kind: "Service", Namespace: "hpc", Name: "lammps", State: server.Missing, Desired: "kind: Service\n"}
	unknown := server.Difference{Member: "cinder", Kind: "Job", Namespace: "hpc", Name: "lammps", State: server.Unknown, Message: "does not answer since 12m" + steer}
	log := `{"time":"2026-05-04T11:59:58.25Z","text":"\tstep 1` + strings.ReplaceAll(steer, "\x1b", `\u001b`) + `"}` + "\n" + `{"lost":3}` + "\n" +
		`{"time":"2026-05-04T11:59:59Z","text":"\u001b[32mstep 5\u001b[0m"}` + "\n" + `{"end":"the container has ended"}` + "\n"
	cases := map[string]struct {
		args   []string
		code   int
		answer string
		want   int
		asked  string
	}{
		"logs":               {[]string{"logs", "lammps", "--rank", "3", "--member", "alpine"}, 200, log, 0, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/logs?member=alpine&rank=3"},
		"logs followed":      {[]string{"logs", "fmc/lammps", "-f", "--timestamps", "-n", "lab"}, 200, log, 0, "Bearer of-kubeconfig /api/v1/miniclusters/lab/lammps/logs?follow=true"},
		"logs not there":     {[]string{"logs", "none"}, 404, "", 1, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/none/logs"},
		"logs forbidden":     {[]string{"logs", "lammps"}, 403, "", 1, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/logs"},
		"logs, a token":      {[]string{"logs", "lammps", "--token", "given"}, 401, "", 1, "Bearer given /api/v1/miniclusters/hpc/lammps/logs"},
		"diff none":          {[]string{"diff", "lammps"}, 200, differences(t, same), 0, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"diff":               {[]string{"diff", "lammps"}, 200, differences(t, same, different, missing, unknown), 1, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"diff not known":     {[]string{"diff", "lammps"}, 200, differences(t, same, unknown), 2, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"diff json":          {[]string{"diff", "lammps", "-o", "json"}, 200, differences(t, unknown), 2, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"diff yaml":          {[]string{"diff", "lammps", "-o", "yaml"}, 200, differences(t, missing), 1, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"diff not there":     {[]string{"diff", "none"}, 404, "", 2, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/none/diff"},
		"diff forbidden":     {[]string{"diff", "lammps"}, 403, "", 2, "Bearer of-kubeconfig /api/v1/miniclusters/hpc/lammps/diff"},
		"open":               {[]string{"open", "lammps", "-n", "hpc"}, 0, "", 0, ""},
		"open a member":      {[]string{"open", "member/alpine"}, 0, "", 0, ""},
		"open a source":      {[]string{"open", "source/fleet", "-n", "hpc"}, 0, "", 0, ""},
		"open no page":       {[]string{"open", "member/a/b"}, 0, "", 2, ""},
		"open the fleet":     {[]string{"open"}, 0, "", 0, ""},
		"logs of two":        {[]string{"logs", "a", "b"}, 0, "", 2, ""},
		"diff, a wrong flag": {[]string{"diff", "a", "--frob"}, 0, "", 2, ""},
		"open, a wrong flag": {[]string{"open", "a", "--frob"}, 0, "", 2, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			address, asked := fakeDashboard(t, c.code, c.answer)
			code, stdout, stderr, _ := play(t, scene{env: map[string]string{"MINIFLEET_SERVER": address}}, c.args...)
			if code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			if got := strings.Join(*asked, "; "); got != c.asked {
				t.Errorf("asked %s, want %s", got, c.asked)
			}
			got := strings.ReplaceAll(transcript(c.args, code, stdout, stderr), address, "https://fleet.example.org")
			golden(t, strings.ReplaceAll(name, ",", ""), got)
			if strings.ContainsAny(stdout+stderr, steer[:1]+"\u009b\u202e") {
				t.Error("prints what steers a terminal")
			}
		})
	}
}

func TestTokenOfTheEnvironment(t *testing.T) {
	address, asked := fakeDashboard(t, 200, "{}")
	env := map[string]string{"MINIFLEET_SERVER": address, "MINIFLEET_TOKEN": "of-environment"}
	if code, _, stderr, _ := play(t, scene{env: env}, "diff", "lammps"); code != 0 || !strings.HasPrefix((*asked)[0], "Bearer of-environment ") {
		t.Errorf("exit code %d, asked %q: %s", code, *asked, stderr)
	}
}

func TestNoToken(t *testing.T) {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}
	code, _, stderr, _ := play(t, scene{config: config}, "logs", "lammps", "--server", "https://fleet.example.org")
	if code != 2 || !strings.Contains(stderr, "kubectl create token") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
