package v1alpha1

import "testing"

func TestControllerLease(t *testing.T) {
	for shard, want := range map[string]string{"": "controller.minifleet.dev", "east": "east.shard.controller.minifleet.dev"} {
		if got := ControllerLease(shard); got != want {
			t.Errorf("lease of %q is %q, want %q", shard, got, want)
		}
		if got, is := IsControllerLease(want); !is || got != shard {
			t.Errorf("%s is of shard %q (%v), want %q", want, got, is, shard)
		}
	}
	if _, is := IsControllerLease("kube-scheduler"); is {
		t.Error("a Lease of somebody else is taken for a controller's")
	}
}

func TestCheckShard(t *testing.T) {
	for key, valid := range map[string]bool{"": true, "east": true, "rack-7": true, "East": false, "a.b": false, "-a": false, "a,b": false} {
		if err := CheckShard(key); (err == nil) != valid {
			t.Errorf("%q: %v", key, err)
		}
	}
}
