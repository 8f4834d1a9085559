package dashboard_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/dashboard"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The document is committed, since the page's client is generated from it.
func TestOpenAPI(t *testing.T) {
	raw, err := dashboard.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error("openapi.json is not of these types: go test ./dashboard -update\n", diff)
	}
}
