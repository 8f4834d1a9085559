package main

import (
	"archive/tar"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var platforms = []string{"linux/amd64", "linux/arm64"}

// built runs `image build` with programs that stand for the real one, and returns the layout.
func built(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	buildInto(t, dir, "v1.2.3")
	return dir
}

func buildInto(t *testing.T, dir, version string) {
	t.Helper()
	work := t.TempDir()
	args := []string{"build", "-dir", dir, "-name", "minifleet:dev", "-license", file(t, work, "LICENSE", "the licence"),
		"-version", version, "-revision", "abc", "-created", "1700000000"}
	for _, platform := range platforms {
		args = append(args, "-binary", platform+"="+file(t, work, strings.ReplaceAll(platform, "/", "-"), "program for "+platform))
	}
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSameBytes(t *testing.T) {
	if diff := cmp.Diff(tree(t, built(t)), tree(t, built(t))); diff != "" {
		t.Error(diff)
	}
}

// tree is all files below a directory with their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestBuild(t *testing.T) {
	dir := built(t)
	images, err := readLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(images); err != nil {
		t.Error(err)
	}
	created := time.Unix(1700000000, 0).UTC()
	for _, platform := range platforms {
		image, err := imageOf(images, platform)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if !config.Created.Equal(created) || platform != config.OS+"/"+config.Architecture {
			t.Errorf("%s: created %s for %s/%s", platform, config.Created, config.OS, config.Architecture)
		}
		labels := config.Config.Labels
		config.Config.Labels = nil
		want := v1.Config{User: "65532:65532", Entrypoint: []string{"/minifleet"}, Cmd: []string{"controller"}, WorkingDir: "/"}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Error(diff)
		}
		if labels["org.opencontainers.image.version"] != "v1.2.3" || labels["org.opencontainers.image.revision"] != "abc" ||
			labels["org.opencontainers.image.created"] != "2023-11-14T22:13:20Z" {
			t.Errorf("labels %v", labels)
		}
		files := []tar.Header{
			{Name: "LICENSE", Mode: 0o644, Size: int64(len("the licence"))},
			{Name: "minifleet", Mode: 0o755, Size: int64(len("program for " + platform))},
		}
		if diff := cmp.Diff(files, headers(t, image, created)); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := imageOf(images, "linux/riscv64"); err == nil || !strings.Contains(err.Error(), "only for linux/amd64, linux/arm64") {
		t.Error(err)
	}
}

// headers are name, mode, owner and size of the files of an image, which are all of one time.
func headers(t *testing.T, image v1.Image, modified time.Time) []tar.Header {
	t.Helper()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	var all []tar.Header
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(modified) {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
		all = append(all, tar.Header{Name: header.Name, Mode: header.Mode, Size: header.Size, Uid: header.Uid, Gid: header.Gid})
	}
}

func TestBuildReplacesAnEarlierLayout(t *testing.T) {
	again, fresh := built(t), filepath.Join(t.TempDir(), "layout")
	buildInto(t, again, "v2.0.0")
	buildInto(t, fresh, "v2.0.0")
	if diff := cmp.Diff(tree(t, fresh), tree(t, again)); diff != "" {
		t.Error(diff)
	}
}

func TestBuildKeepsWhatIsNoLayout(t *testing.T) {
	dir := t.TempDir()
	mine := file(t, dir, "mine", "no layout")
	if err := removeLayout(dir); err == nil || !strings.Contains(err.Error(), "no OCI layout") {
		t.Error(err)
	}
	if read(t, mine) != "no layout" {
		t.Error("the file has changed")
	}
}

func TestArchive(t *testing.T) {
	dir, to := built(t), filepath.Join(t.TempDir(), "image.tar")
	if err := run(t.Context(), []string{"archive", "-dir", dir, "-name", "minifleet:dev", "-platform", "linux/arm64", "-to", to}, io.Discard); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("minifleet:dev")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(to, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != "arm64" {
		t.Errorf("%+v, %v", config, err)
	}
	content, err := os.ReadFile(to)
	if err != nil || !strings.Contains(string(content), `"RepoTags":["minifleet:dev"]`) {
		t.Errorf("the archive does not name the image as it was told: %v", err)
	}
}

func TestPush(t *testing.T) {
	dir := built(t)
	server := httptest.NewServer(guarded(registry.New()))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	reference := host + "/hpc/minifleet:v1"
	login(t, host, "nobody:wrong")
	if err := run(t.Context(), []string{"push", "-dir", dir, "-name", reference}, io.Discard); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong password: %v", err)
	}
	login(t, host, "ann:secret")
	var out strings.Builder
	if err := run(t.Context(), []string{"push", "-dir", dir, "-name", reference}, &out); err != nil {
		t.Fatal(err)
	}
	images, err := readLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := images.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), host+"/hpc/minifleet@"+digest.String()) {
		t.Errorf("said %q", out.String())
	}
	pulled(t, host+"/hpc/minifleet@"+digest.String())
	pulled(t, reference)
}

func pulled(t *testing.T, reference string) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	auth := remote.WithAuth(basic{})
	images, err := remote.Index(ref, auth)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(images); err != nil {
		t.Error(err)
	}
	for _, platform := range platforms {
		if _, err := imageOf(images, platform); err != nil {
			t.Error(err)
		}
	}
}

// guarded asks for a password as registries do.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// login is what `docker login` leaves in the user's configuration.
func login(t *testing.T, host, password string) {
	t.Helper()
	dir := t.TempDir()
	file(t, dir, "config.json", `{"auths": {"`+host+`": {"auth": "`+base64.StdEncoding.EncodeToString([]byte(password))+`"}}}`)
	t.Setenv("DOCKER_CONFIG", dir)
}

func TestRefused(t *testing.T) {
	dir := built(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":            {nil, "usage"},
		"another command":       {[]string{"pull"}, "usage"},
		"nothing to build":      {[]string{"build", "-dir", "x", "-name", "a:b", "-license", "x", "-version", "v1"}, "-binary once or more"},
		"no platform":           {[]string{"build", "-binary", "path"}, "OS/ARCHITECTURE=PATH"},
		"a digest for a name":   {[]string{"build", "-dir", "x", "-name", "a@sha256:" + strings.Repeat("0", 64), "-license", "x", "-version", "v1", "-binary", "linux/amd64=x"}, "say NAME:TAG"},
		"no such program":       {[]string{"build", "-dir", "x", "-name", "a:b", "-license", filepath.Join(dir, "index.json"), "-version", "v1", "-binary", "linux/amd64=missing"}, "missing"},
		"push without registry": {[]string{"push", "-dir", dir, "-name", "minifleet:dev"}, "REGISTRY/NAME:TAG"},
		"push of nothing":       {[]string{"push", "-dir", "missing", "-name", "localhost:1/a:b"}, "make image"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
		})
	}
}

// The Dockerfile makes the same image: its last stage, and how the program is built.
func TestDockerfile(t *testing.T) {
	dockerfile := strings.ReplaceAll(read(t, "../../Dockerfile"), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(dockerfile, -1)
	last := strings.Split(stages[len(stages)-1], "\n")
	got := map[string][]string{"FROM": {strings.TrimSpace(last[0])}}
	for _, line := range last[1:] {
		if instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " "); instruction != "" && instruction != "LABEL" {
			got[instruction] = append(got[instruction], rest)
		}
	}
	want := map[string][]string{
		"FROM": {"scratch"}, "ARG": {"VERSION REVISION CREATED"}, "COPY": {"LICENSE /LICENSE", "--from=build " + program + " " + program},
		"WORKDIR": {"/"}, "USER": {user}, "ENTRYPOINT": {`["` + program + `"]`}, "CMD": {`["` + command + `"]`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	labels := map[string]string{}
	for _, match := range regexp.MustCompile(`(org\.opencontainers\.image\.\w+)=("[^"]*")`).FindAllStringSubmatch(dockerfile, -1) {
		value, err := strconv.Unquote(match[2])
		if err != nil {
			t.Fatal(err)
		}
		labels[match[1]] = value
	}
	ours := contents{Version: "$VERSION", Revision: "$REVISION"}.labels()
	ours["org.opencontainers.image.created"] = "$CREATED"
	if diff := cmp.Diff(ours, labels); diff != "" {
		t.Error(diff)
	}
}

func TestDockerfileBuildsAlike(t *testing.T) {
	dockerfile := strings.ReplaceAll(read(t, "../../Dockerfile"), "\\\n", " ")
	docker := words(t, dockerfile, `CGO_ENABLED=0 GOOS=\$TARGETOS GOARCH=\$TARGETARCH go build (.*) -o `)
	ours := words(t, read(t, "../make/image.mk"), `image_build_flags = (.*)`)
	for i := range ours {
		ours[i] = strings.NewReplacer("$(MODULE)", "github.com/minifleet/minifleet", "$(VERSION)", "$VERSION", "'", `"`).Replace(ours[i])
	}
	if diff := cmp.Diff(docker, ours); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(ours, "-trimpath") {
		t.Errorf("no -trimpath among %q: paths of the machine would be in the program", ours)
	}
	if !strings.Contains(read(t, "../make/image.mk"), "CGO_ENABLED=0 GOOS=") {
		t.Error("the program would not be static")
	}
}

func words(t *testing.T, text, pattern string) []string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	return strings.Fields(match[1])
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLayoutNames(t *testing.T) {
	var outer struct {
		Manifests []struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	decode(t, read(t, filepath.Join(built(t), "index.json")), &outer)
	got := map[string]string{}
	for _, manifest := range outer.Manifests {
		maps.Copy(got, manifest.Annotations)
	}
	if diff := cmp.Diff(map[string]string{annotationRefName: "v1.2.3", annotationContainerd: "docker.io/library/minifleet:dev"}, got); diff != "" {
		t.Error(diff)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// basic are the credentials that guarded asks for.
type basic struct{}

// Authorization implements authn.Authenticator.
func (basic) Authorization() (*authn.AuthConfig, error) {
	return &authn.AuthConfig{Username: "ann", Password: "secret"}, nil
}
