package helmtest

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/minifleet/minifleet/hack/chart"
)

// What `make chart` packages is pushed to a registry and pulled from it, by either Helm what the other has pushed.
func TestRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/charts"
	programs := helms(t)
	for i, h := range programs {
		version := []string{"v1.0.0", "v1.1.0-3-gabcdef0"}[i]
		number, err := chart.SemVer(version)
		if err != nil {
			t.Fatal(err)
		}
		path, err := chart.Package(folder(t), version, "", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h.run(t, "push", path, repository, "--plain-http")
		for _, other := range programs {
			dir := t.TempDir()
			other.run(t, "pull", repository+"/minifleet", "--version", number, "--plain-http", "--destination", dir)
			have, err := os.ReadFile(filepath.Join(dir, "minifleet-"+number+".tgz"))
			if err != nil || !bytes.Equal(want, have) {
				t.Errorf("%s pulls something else than %s pushed: %v", other.name, h.name, err)
			}
			out := other.run(t, "show", "chart", repository+"/minifleet", "--version", number, "--plain-http")
			if !strings.Contains(out, "version: "+number) || !strings.Contains(out, "appVersion: "+version) {
				t.Errorf("%s shows %s", other.name, out)
			}
		}
	}
}
