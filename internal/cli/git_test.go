package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestGitFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"none":                  {nil, ""},
		"all":                   {[]string{"--git-allowed-url-prefixes", "https://a/b,https://c", "--git-refused-cidrs", "10.0.0.0/8,::1", "--git-allowed-cidrs", "10.1.0.0/16", "--default-service-account", "tenant"}, ""},
		"nothing is refused":    {[]string{"--git-refused-cidrs", ""}, ""},
		"a wrong prefix":        {[]string{"--git-allowed-url-prefixes", "git.example.org"}, `--git-allowed-url-prefixes: "git.example.org" is not the beginning of a URL`},
		"a wrong range":         {[]string{"--git-refused-cidrs", "10.0.0.0/99"}, `--git-refused-cidrs: "10.0.0.0/99" is not a range`},
		"a wrong exception":     {[]string{"--git-allowed-cidrs", "localhost"}, `--git-allowed-cidrs: "localhost" is not a range`},
		"no objects":            {[]string{"--git-max-objects", "0"}, "--git-max-objects must be at least 1"},
		"no sources":            {[]string{"--git-sources-per-namespace", "0"}, "--git-sources-per-namespace must be at least 1"},
		"no large sources":      {[]string{"--git-large-sources", "-1"}, "--git-large-sources must be at least 1"},
		"no name of an account": {[]string{"--default-service-account", "a/b"}, `"a/b" is no name of a service account`},
	} {
		t.Run(name, func(t *testing.T) {
			var f gitFlags
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			_, err := f.options()
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("error %v, want %q", err, tc.says)
			}
		})
	}
	var f gitFlags
	f.add(pflag.NewFlagSet("test", pflag.ContinueOnError))
	o, err := f.options()
	if err != nil || len(o.Network.Refused) == 0 || len(o.Network.Allowed) != 0 || o.Settings.Limits.MaxObjects != 5000 {
		t.Errorf("without flags: %+v, %v", o, err)
	}
}
