package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestClusterProfileFlags(t *testing.T) {
	t.Setenv("PATH", "/plugins")
	t.Setenv("MINIFLEET_TEST_SECRET", "hunter2")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", `{"providers": [{"name": "cloud", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "cloud"}}]}`)
	bad := write("bad", `{"providers": [{"name": "cloud"}]}`)
	flags := func(f clusterProfileFlags) clusterProfileFlags {
		if f.timeout == 0 {
			f.timeout = time.Minute
		}
		return f
	}
	for name, c := range map[string]struct {
		flags clusterProfileFlags
		says  string
	}{
		"no file":        {flags(clusterProfileFlags{providers: filepath.Join(dir, "none")}), "no such file"},
		"a bad file":     {flags(clusterProfileFlags{providers: bad}), `providers[0] "cloud": execConfig is missing`},
		"a bad name":     {flags(clusterProfileFlags{providers: good, namespace: "A/B"}), "--cluster-profile-namespace"},
		"a short time":   {flags(clusterProfileFlags{providers: good, timeout: 1}), "--credential-plugin-timeout"},
		"what is wanted": {flags(clusterProfileFlags{providers: good, namespace: "fleet"}), ""},
		"nothing":        {clusterProfileFlags{}, ""},
	} {
		o, err := c.flags.options()
		switch {
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v", name, err)
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case err == nil && (o == nil) != (c.flags.providers == ""):
			t.Errorf("%s: %v", name, o)
		case o != nil && (!slices.Contains(o.Environment, "PATH=/plugins") || strings.Contains(strings.Join(o.Environment, " "), "hunter2")):
			t.Errorf("%s: the environment of plugins is %v", name, o.Environment)
		}
	}
}
