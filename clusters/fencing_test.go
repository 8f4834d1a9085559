package clusters

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	own := record{hub: "this", epoch: 3}
	for name, c := range map[string]struct {
		found *record
		held  bool
		want  verdict
	}{
		"none":                                    {nil, false, claimCreate},
		"none, after there was one":               {nil, true, claimCreate},
		"this hub":                                {&record{hub: "this", epoch: 3}, false, claimKeep},
		"this hub, as before":                     {&record{hub: "this", epoch: 3}, true, claimKeep},
		"this hub, earlier":                       {&record{hub: "this", epoch: 2}, true, claimTakeover},
		"this hub, later: restored":               {&record{hub: "this", epoch: 5}, false, claimAdopt},
		"this hub, later, seen to be raised":      {&record{hub: "this", epoch: 5}, true, claimFenced},
		"this hub, later than people count":       {&record{hub: "this", epoch: 3 + maxRaise + 1}, false, claimFenced},
		"another hub, earlier":                    {&record{hub: "other", epoch: 2}, false, claimTakeover},
		"another hub, in the same epoch":          {&record{hub: "other", epoch: 3}, false, claimFenced},
		"another hub, later":                      {&record{hub: "other", epoch: 4}, false, claimFenced},
		"another hub, that has taken this over":   {&record{hub: "other", epoch: 4}, true, claimFenced},
		"another shard":                           {&record{hub: "this", epoch: 3, shard: "west"}, false, claimOtherShard},
		"another shard, that has taken this over": {&record{hub: "this", epoch: 3, shard: "west"}, true, claimOtherShard},
		"another shard, earlier":                  {&record{hub: "this", epoch: 2, shard: "west"}, false, claimOtherShard},
		"another shard, later":                    {&record{hub: "this", epoch: 5, shard: "west"}, false, claimAdopt},
		"another shard of an earlier hub":         {&record{hub: "other", epoch: 2, shard: "west"}, false, claimTakeover},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(own, c.found, c.held); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestParseRecord(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		want *record // nil for an error
	}{
		"a record":          {map[string]string{"hub": "h", "epoch": "2", "since": "t"}, &record{hub: "h", epoch: 2, since: "t"}},
		"of a shard":        {map[string]string{"hub": "h", "epoch": "2", "shard": "west"}, &record{hub: "h", epoch: 2, shard: "west"}},
		"no time":           {map[string]string{"hub": "h", "epoch": "1"}, &record{hub: "h", epoch: 1}},
		"nothing":           {nil, nil},
		"no hub":            {map[string]string{"epoch": "2"}, nil},
		"no epoch":          {map[string]string{"hub": "h"}, nil},
		"epoch 0":           {map[string]string{"hub": "h", "epoch": "0"}, nil},
		"an epoch too long": {map[string]string{"hub": "h", "epoch": "99999999999999999999"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseRecord(&corev1.ConfigMap{Data: c.data})
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(record{})); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (c.want == nil) || err != nil && !isFenced(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestRecordsOfFleetsAreApart(t *testing.T) {
	all, confined := v1alpha1.MemberClusterSpec{}, v1alpha1.MemberClusterSpec{Namespace: "site"}
	if a, b := fenceKey(all, "one"), fenceKey(all, "two"); a == b || a.Namespace != "default" {
		t.Errorf("%s and %s", a, b)
	}
	if got := fenceKey(confined, "one"); got.Namespace != "site" || got.Name != fenceKey(all, "one").Name {
		t.Errorf("confined: %s", got)
	}
}

func TestFencedErrorSaysWhoAndWhatToDo(t *testing.T) {
	own := record{hub: "this", epoch: 1}
	for name, found := range map[string]record{"another": {hub: "other", epoch: 7, since: "noon"}, "a copy": {hub: "this", epoch: 7, since: "noon"}} {
		err := fencedError(own, &found)
		for _, want := range []string{"epoch 7", `"noon"`, "UID this", "minifleet-fleet", "to 8", "stop this hub"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", name, want, err)
			}
		}
		if !isFenced(err) || !Unanswered(err) {
			t.Errorf("%s: a fenced member counts as one that cannot be asked", name)
		}
	}
}

func TestNoHubNoFence(t *testing.T) {
	f := newFence(&Provider{}, nil)
	f.note()
	if err := f.check(t.Context()); err != nil || f.changes() != nil || f.epoch() != 0 {
		t.Errorf("%v", err)
	}
}
