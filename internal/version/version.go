// Package version says which build this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for releases: -X .../internal/version.version=v1.2.3.
var version string

// Info is which build this is, for scripts. What the build did not record is empty.
type Info struct {
	// Version is a tag, or what `git describe` says of a commit after one; (devel) where nothing is known.
	Version string `json:"version"`
	// Commit is the full hash of the commit that was built.
	Commit string `json:"commit,omitempty"`
	// BuildDate is the time of that commit in RFC 3339, UTC, so that building it again gives the same program.
	BuildDate string `json:"buildDate,omitempty"`
	// Dirty says that files under version control had been changed without a commit.
	Dirty bool `json:"dirty"`
	// GoVersion is that of the compiler, e.g. go1.26.3.
	GoVersion string `json:"goVersion"`
	// Platform is OS/ARCHITECTURE, e.g. linux/amd64.
	Platform string `json:"platform"`
}

// Get returns what this program knows of its own build.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return infoOf(version, build)
}

// infoOf takes the version that the linker has set, if any, and what the Go command has recorded, if it has.
func infoOf(linked string, build *debug.BuildInfo) Info {
	info := Info{Version: linked, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		if info.Version == "" {
			info.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Commit = s.Value
			case "vcs.time":
				info.BuildDate = s.Value
			case "vcs.modified":
				info.Dirty = s.Value == "true"
			}
		}
	}
	if info.Version == "" {
		info.Version = "(devel)"
	}
	return info
}

// String is VERSION, commit and Go version, in one line.
func String() string { return Get().String() }

// String is what `minifleet version` prints for people.
func (i Info) String() string {
	commit := ""
	if len(i.Commit) >= 12 {
		commit = " commit " + i.Commit[:12]
	}
	return fmt.Sprintf("minifleet %s%s %s %s", i.Version, commit, i.GoVersion, i.Platform)
}
