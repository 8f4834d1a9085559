package main

import (
	"strings"
	"testing"
)

func TestSemanticVersion(t *testing.T) {
	cases := map[string]struct{ described, want string }{
		"a tag":                 {"v1.2.3", "v1.2.3"},
		"a candidate":           {"v1.2.3-rc.1", "v1.2.3-rc.1"},
		"after a tag":           {"v1.2.3-4-g0123abc", "v1.2.3-4-g0123abc"},
		"dirty":                 {"v1.2.3-4-g0123abc-dirty", "v1.2.3-4-g0123abc-dirty"},
		"no tag":                {"0123abcd", "v0.0.0-g0123abcd"},
		"no tag, dirty":         {"0123abcd-dirty", "v0.0.0-g0123abcd-dirty"},
		"nothing":               {"", ""},
		"no v":                  {"1.2.3", ""},
		"another tag":           {"latest", ""},
		"one that is not whole": {"v1.2", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := semanticVersion(c.described)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
			if got != "" && !semantic.MatchString(got) {
				t.Errorf("%q is no semantic version", got)
			}
		})
	}
}

// The bundle of OLM takes no hash for a version, which is what a clone without tags has.
func TestVersionOfABundle(t *testing.T) {
	for described, want := range map[string]string{"v1.2.3": "1.2.3\n", "0123abcd-dirty": "0.0.0-g0123abcd-dirty\n"} {
		var out strings.Builder
		if err := run([]string{"version", "-version", described}, &out); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v", described, out.String(), err)
		}
	}
}
