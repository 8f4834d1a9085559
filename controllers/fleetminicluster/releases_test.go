package fleetminicluster

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/queue"
)

// A Job is as it was answered for as long as the cache has an older one. What the cache has besides counts.
func TestReleases(t *testing.T) {
	job := func(uid types.UID, version string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: uid, ResourceVersion: version}}
	}
	key, answered := queue.Key{Namespace: "hpc", Name: "run"}, job("aa", "12")
	cases := map[string]struct {
		cached   *batchv1.Job
		answered bool // what counts
		again    bool // that counts in what is read then, which is older
	}{
		"as it was created":          {job("aa", "9"), true, true},
		"as it was released":         {job("aa", "12"), false, false},
		"as it has become":           {job("aa", "100"), false, false},
		"deleted":                    {nil, false, true},
		"another one":                {job("bb", "9"), false, false},
		"of a version without order": {job("aa", "x"), false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var r releases
			r.add(key, "alpine", answered)
			if got := r.newest(key, "alpine", c.cached); (got == answered) != c.answered || !c.answered && got != c.cached {
				t.Errorf("got %v", got)
			}
			if got := r.newest(key, "alpine", job("aa", "9")); (got == answered) != c.again {
				t.Errorf("then %v", got)
			}
			if older := job("aa", "9"); r.newest(key, "basalt", older) != older {
				t.Error("another member has it, too")
			}
			r.forget(key)
			if len(r.of) > 0 {
				t.Error("something is left")
			}
		})
	}
}
