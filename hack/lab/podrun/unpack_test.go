package podrun

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestUnpack(t *testing.T) {
	layout, rootfs := layoutWith(t, tar.Header{Name: "bin/program", Mode: 0o750, Typeflag: tar.TypeReg}), filepath.Join(t.TempDir(), "rootfs")
	image, err := Unpack(layout, "linux/amd64", rootfs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Image{Entrypoint: []string{"/bin/program"}, User: "1:2"}, image); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(rootfs, "bin", "program"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		header   tar.Header
		platform string
		damage   bool
		want     string
	}{
		"another platform":            {tar.Header{Name: "a", Typeflag: tar.TypeReg}, "linux/arm64", false, "no image for linux/arm64"},
		"other content than promised": {tar.Header{Name: "a", Typeflag: tar.TypeReg}, "linux/amd64", true, "has other content"},
		"a file outside":              {tar.Header{Name: "../a", Typeflag: tar.TypeReg}, "linux/amd64", false, "escape"},
		"a link":                      {tar.Header{Name: "a", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, "linux/amd64", false, "neither a file nor a directory"},
		"a deletion":                  {tar.Header{Name: ".wh.a", Typeflag: tar.TypeReg}, "linux/amd64", false, "deletes what another layer has"},
	} {
		t.Run(name, func(t *testing.T) {
			layout := layoutWith(t, c.header)
			if c.damage {
				damage(t, layout)
			}
			_, err := Unpack(layout, c.platform, filepath.Join(t.TempDir(), "rootfs"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
		})
	}
}

// layoutWith writes a layout whose image has one entry.
func layoutWith(t *testing.T, header tar.Header) string {
	t.Helper()
	layout := t.TempDir()
	if err := os.MkdirAll(filepath.Join(layout, "blobs", "sha256"), 0o700); err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	compressed := gzip.NewWriter(&layer)
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	put := func(data []byte) map[string]any {
		sum := sha256.Sum256(data)
		if err := os.WriteFile(filepath.Join(layout, "blobs", "sha256", hex.EncodeToString(sum[:])), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"digest": "sha256:" + hex.EncodeToString(sum[:])}
	}
	config := put(encode(t, map[string]any{"config": map[string]any{"User": "1:2", "Entrypoint": []string{"/bin/program"}}}))
	image := put(encode(t, map[string]any{"config": config, "layers": []any{put(layer.Bytes())}}))
	image["platform"] = map[string]string{"os": "linux", "architecture": "amd64"}
	index := put(encode(t, map[string]any{"manifests": []any{image}}))
	if err := os.WriteFile(filepath.Join(layout, "index.json"), encode(t, map[string]any{"manifests": []any{index}}), 0o600); err != nil {
		t.Fatal(err)
	}
	return layout
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func damage(t *testing.T, layout string) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blobs {
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "B": "$(A)"}
	for text, want := range map[string]string{
		"": "", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$(C)": "$(C)", "$$(A)": "$(A)", "$A": "$A", "$(A": "$(A", "$(B)": "$(A)", "$": "$", "5$": "5$",
	} {
		if got := expand(text, env); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

func TestUserOf(t *testing.T) {
	for name, c := range map[string]struct {
		pod       corev1.PodSecurityContext
		container corev1.SecurityContext
		image     string
		want      user
		err       string
	}{
		"the image's":     {image: "65532:65533", want: user{UID: 65532, GID: 65533}},
		"root":            {},
		"the pod's":       {pod: corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1), FSGroup: ptr.To[int64](7)}, image: "2:3", want: user{UID: 1, GID: 3, AdditionalGids: []int64{7}}},
		"the container's": {pod: corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1)}, container: corev1.SecurityContext{RunAsUser: ptr.To[int64](4), RunAsGroup: ptr.To[int64](5)}, want: user{UID: 4, GID: 5}},
		"root, refused":   {pod: corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}, err: "runAsNonRoot"},
		"a name":          {image: "nonroot", err: "no number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userOf(&c.pod, &c.container, c.image)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("want %q: %v", c.err, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	dropped := capabilities(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}})["bounding"]
	if diff := cmp.Diff([]string{"CAP_NET_BIND_SERVICE"}, dropped); diff != "" {
		t.Error(diff)
	}
	if given := capabilities(nil)["effective"]; len(given) != len(defaultCapabilities) {
		t.Errorf("%v", given)
	}
}
