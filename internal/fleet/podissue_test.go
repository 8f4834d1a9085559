package fleet_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestRepeats(t *testing.T) {
	pull := fleet.PodIssue{Reason: "ImagePullBackOff", Message: "container lammps: not found", Pod: "lammps-3-x7k2p", Pods: 1}
	quota := fleet.PodIssue{Reason: "FailedCreate", Message: "exceeded quota", Pods: 4}
	with := func(o fleet.PodIssue, reason, message string) *fleet.PodIssue {
		o.Reason, o.Message = reason, message
		return &o
	}
	other := pull
	other.Pod = "lammps-2-aaaaa"
	fewer := quota
	fewer.Pods = 3
	const create, ready, image = "FailedCreate", v1alpha1.ReasonPodsNotReady, "ImagePullBackOff"
	cases := map[string]struct {
		before, now *fleet.PodIssue
		want        bool
	}{
		"none":           {nil, nil, true},
		"the first":      {nil, &pull, false},
		"the last":       {&pull, nil, false},
		"the same":       {&pull, &pull, true},
		"another pod":    {&pull, &other, false},
		"another reason": {&pull, with(pull, "CreateContainerError", pull.Message), false},
		"fewer":          {&quota, &fewer, false},
		"another cause": {
			with(quota, create, "exceeded quota"), with(quota, create, `violates PodSecurity "restricted"`), false,
		},
		"the next name, and more in use": {
			with(quota, create, `pods "lammps-0-abcde" is forbidden: exceeded quota: none, used: pods=3, limited: pods=3`),
			with(quota, create, `pods "lammps-0-fghij" is forbidden: exceeded quota: none, used: pods=13, limited: pods=3`), true,
		},
		"another quota": {
			with(quota, create, `pods "lammps-0-abcde" is forbidden: exceeded quota: none`),
			with(quota, create, `pods "lammps-0-abcde" is forbidden: exceeded quota: other`), false,
		},
		"a longer back-off": {
			with(pull, ready, "back-off 40s restarting failed container"), with(pull, ready, "back-off 1m20s restarting failed container"), true,
		},
		"an id of the request": {
			with(quota, create, "denied (request 5f0c1a2b-77aa)"), with(quota, create, "denied (request 0b0c1d2e-88bb)"), true,
		},
		"between two attempts, no longer saying why": {
			with(pull, image, "container lammps: not found"), with(pull, image, `container lammps: Back-off pulling image "x"`), true,
		},
		"saying why": {
			with(pull, image, `container lammps: Back-off pulling image "x"`), with(pull, image, "container lammps: not found"), false,
		},
	}
	for name, c := range cases {
		if got := c.now.Repeats(c.before); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
