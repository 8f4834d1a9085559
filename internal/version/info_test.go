package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInfo(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	const commit = "0123456789abcdef0123456789abcdef01234567"
	recorded := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.4-0.20260102030405-0123456789ab"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	cases := map[string]struct {
		linked string
		build  *debug.BuildInfo
		want   Info
		line   string
	}{
		"a release": {"v1.2.3", recorded,
			Info{Version: "v1.2.3", Commit: commit, BuildDate: "2026-01-02T03:04:05Z", Dirty: true, GoVersion: runtime.Version(), Platform: platform},
			"minifleet v1.2.3 commit 0123456789ab " + runtime.Version() + " " + platform},
		"go install": {"", recorded,
			Info{Version: "v1.2.4-0.20260102030405-0123456789ab", Commit: commit, BuildDate: "2026-01-02T03:04:05Z", Dirty: true, GoVersion: runtime.Version(), Platform: platform},
			"minifleet v1.2.4-0.20260102030405-0123456789ab commit 0123456789ab " + runtime.Version() + " " + platform},
		"without version control": {"v1.2.3", &debug.BuildInfo{},
			Info{Version: "v1.2.3", GoVersion: runtime.Version(), Platform: platform}, "minifleet v1.2.3 " + runtime.Version() + " " + platform},
		"nothing recorded": {"", nil,
			Info{Version: "(devel)", GoVersion: runtime.Version(), Platform: platform}, "minifleet (devel) " + runtime.Version() + " " + platform},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := infoOf(c.linked, c.build)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.String() != c.line {
				t.Errorf("got %q, want %q", got.String(), c.line)
			}
		})
	}
}
