package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/internal/version"
)

func TestVersionForScripts(t *testing.T) {
	formats := map[string]func([]byte, *version.Info) error{
		"json": func(data []byte, out *version.Info) error { return json.Unmarshal(data, out) },
		"yaml": func(data []byte, out *version.Info) error { return yaml.UnmarshalStrict(data, out) },
	}
	for format, unmarshal := range formats {
		t.Run(format, func(t *testing.T) {
			code, out, errs := run("", "version", "-o", format)
			if code != 0 || errs != "" {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			var got version.Info
			if err := unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(version.Get(), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
