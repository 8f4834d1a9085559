package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Of what `git describe --tags --always --dirty` prints: a commit after a tag, and one where there is no tag.
var (
	afterTag = regexp.MustCompile(`^(.+)-(\d+)-g([0-9a-f]{7,40})$`)
	noTag    = regexp.MustCompile(`^[0-9a-f]{7,40}$`)
)

// SemVer is the version of a chart of what `git describe` calls version. A commit after a tag is a pre-release of the patch that
// may follow it, and one before any tag of 0.0.0, so that a release is newer than what led to it.
func SemVer(version string) (string, error) {
	clean, dirty := strings.CutSuffix(version, "-dirty")
	out, err := semVer(clean)
	switch {
	case err != nil:
		return "", fmt.Errorf("version %q is neither like v1.2.3 nor what git describe prints: %w", version, err)
	case dirty && strings.Contains(out, "-"):
		return out + ".dirty", nil
	case dirty:
		return out + "-dirty", nil
	default:
		return out, nil
	}
}

func semVer(version string) (string, error) {
	if noTag.MatchString(version) {
		return "0.0.0-dev.0.g" + version, nil
	}
	tag, since := version, ""
	if m := afterTag.FindStringSubmatch(version); m != nil {
		tag, since = m[1], "dev."+m[2]+".g"+m[3]
	}
	v, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	switch {
	case err != nil:
		return "", err
	case since == "":
		return v.String(), nil
	case v.Prerelease() != "":
		return v.String() + "." + since, nil
	default:
		next := v.IncPatch()
		return next.String() + "-" + since, nil
	}
}

// Package writes the package of a chart's folder into a directory, and returns its path. Version is what `git describe` says: it
// is the version of the application, and by SemVer that of the chart. The same files and version give the same bytes.
func Package(folder, version, image, directory string) (string, error) {
	files, err := ReadFolder(folder)
	if err != nil {
		return "", err
	}
	number, err := SemVer(version)
	if err != nil {
		return "", err
	}
	files["Chart.yaml"] = []byte(Metadata(number, version))
	if files["values.yaml"], err = withImage(files["values.yaml"], image); err != nil {
		return "", err
	}
	data, err := archive(files)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	out := filepath.Join(directory, Name+"-"+number+".tgz")
	return out, os.WriteFile(out, data, 0o644)
}

// withImage has values name an image by default, NAME[:TAG][@DIGEST]; an empty one changes nothing. The tag is left out: the chart's
// own version is one, and a digest counts in place of it.
func withImage(values []byte, image string) ([]byte, error) {
	if image == "" {
		return values, nil
	}
	name, digest, _ := strings.Cut(image, "@")
	if tag := strings.LastIndex(name, ":"); tag > strings.LastIndex(name, "/") {
		name = name[:tag]
	}
	text := string(values)
	for from, to := range map[string]string{
		"\n  repository: minifleet\n": "\n  repository: " + name + "\n",
		"\n  digest: \"\"\n":          fmt.Sprintf("\n  digest: %q\n", digest),
	} {
		if strings.Count(text, from) != 1 {
			return nil, fmt.Errorf("values.yaml has %d lines %q, and the image is put into one", strings.Count(text, from), strings.TrimSpace(from))
		}
		text = strings.Replace(text, from, to, 1)
	}
	return []byte(text), nil
}

// epoch is when all files of a package were changed: any fixed time will do, and programs of other systems refuse 0.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// archive packs files with their names sorted, Chart.yaml first, as Helm reads it.
func archive(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	names := slices.Sorted(maps.Keys(files))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(Name, name), Mode: 0o644, Size: int64(len(files[name])),
			ModTime: epoch, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func rank(name string) int {
	if name == "Chart.yaml" {
		return 0
	}
	return 1
}
