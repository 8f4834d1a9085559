package actions_test

import (
	"testing"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

func TestEffects(t *testing.T) {
	live := []string{"hpc/lammps (run 3f2a000000)"}
	twoLive := func(f *v1alpha1.FleetMiniCluster) { f.Status.Runs[0].State = v1alpha1.RunStarting }
	replace := func(f *v1alpha1.FleetMiniCluster) { f.Spec.OnChange = v1alpha1.Replace }
	plain := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	cases := map[string]struct {
		effect func() (string, error)
		want   string
		err    string
		kind   actions.ErrorKind
	}{
		"rerun": {effect: func() (string, error) { return actions.EffectRerun(miniCluster(ended)) },
			want: "runs it once more where its placement chooses (last alpine, basalt); what has succeeded before is run again as well"},
		"rerun while one is live": {effect: func() (string, error) { return actions.EffectRerun(miniCluster()) },
			want: "runs it once more where its placement chooses (last alpine, basalt), after the end of run 3f2a000000 on alpine (4 pods); what has succeeded before is run again as well"},
		"rerun that replaces": {effect: func() (string, error) { return actions.EffectRerun(miniCluster(replace)) },
			want: "stops run 3f2a000000 on alpine (4 pods), and then runs it once more where its placement chooses (last alpine, basalt) (onChange: Replace); what has succeeded before is run again as well"},
		"rerun while suspended": {effect: func() (string, error) { return actions.EffectRerun(miniCluster(ended, held)) },
			want: "runs it once more where its placement chooses (last alpine, basalt), once it is resumed: it is suspended now; what has succeeded before is run again as well"},
		"cancel": {effect: func() (string, error) { return actions.EffectCancel(miniCluster(), nil) },
			want: "cancels run 3f2a000000 on alpine: its 4 pods are stopped and it is not started again until the MiniCluster changes or somebody asks to run it again"},
		"cancel two": {effect: func() (string, error) { return actions.EffectCancel(miniCluster(twoLive), nil) },
			want: "cancels 2 runs (9c1d000000 on basalt; 3f2a000000 on alpine, 4 pods): their pods are stopped and they are not started again until the MiniCluster changes or somebody asks to run it again"},
		"cancel on a silent member": {effect: func() (string, error) { return actions.EffectCancel(miniCluster(silent), nil) },
			want: "cancels run 3f2a000000 on alpine: its 4 pods are stopped and it is not started again until the MiniCluster changes or somebody asks to run it again; alpine cannot be reached: what runs there is stopped when it returns"},
		"cancel what has ended": {effect: func() (string, error) { return actions.EffectCancel(miniCluster(), []string{"9c1d"}) },
			kind: actions.Invalid, err: "FleetMiniCluster hpc/lammps: run: 9c1d000000 on basalt has ended already"},
		"suspend": {effect: func() (string, error) { return actions.EffectSuspend(miniCluster()) },
			want: "starts nothing new and suspends run 3f2a000000 on alpine (4 pods): the pods end, what they have not saved is lost, and the same run begins anew when it is resumed and has room"},
		"suspend, none live": {effect: func() (string, error) { return actions.EffectSuspend(miniCluster(ended)) },
			want: "starts nothing new until it is resumed; Git leaves that alone"},
		"resume": {effect: func() (string, error) { return actions.EffectResume(miniCluster(held, ended)) },
			want: "starts what has not run yet as soon as there is room"},
		"resume a run": {effect: func() (string, error) { return actions.EffectResume(miniCluster(held)) },
			want: "has run 3f2a000000 on alpine (4 pods) begin anew as soon as there is room"},
		"resume against Git": {effect: func() (string, error) { return actions.EffectResume(miniCluster(suspendedInGit)) },
			kind: actions.Conflict, err: "is true in Git"},
		"grow": {effect: func() (string, error) { return actions.EffectScale(miniCluster(), 6) },
			want: "adds 2 pods on each member (6, not 4) as soon as they have room; what runs goes on"},
		"shrink": {effect: func() (string, error) { return actions.EffectScale(miniCluster(fromGit), 2) },
			want: "stops the last 2 pods on each member (2, not 4), with whatever runs on them; the size in Git (GitSource fleet, production/lammps.yaml) comes back when this MiniCluster is changed there"},
		"grow by one": {effect: func() (string, error) { return actions.EffectScale(miniCluster(), 5) },
			want: "adds 1 pod on each member (5, not 4) as soon as it has room; what runs goes on"},
		"shrink by one": {effect: func() (string, error) { return actions.EffectScale(miniCluster(), 3) },
			want: "stops the last pod on each member (3, not 4), with whatever runs on it"},
		"grow, none live": {effect: func() (string, error) { return actions.EffectScale(miniCluster(ended), 6) },
			want: "gives the next run 6 pods on each member, not 4; none is live now, and none begins because of this"},
		"grow too much": {effect: func() (string, error) { return actions.EffectScale(miniCluster(), 9) },
			kind: actions.Invalid, err: "9 is above maxSize"},
		"run gone": {effect: func() (string, error) { return actions.EffectRunGone(miniCluster(silent), []string{"3f2a"}, now) },
			want: "gives up run 3f2a000000 on alpine (last heard of 12m ago, with 4 pods), and what that was for starts on another member: if its pods still run, it runs twice at once until the member returns, so make sure first that they do not, by switching off their nodes for example; this cannot be taken back"},
		"cancel twice": {effect: func() (string, error) {
			return actions.EffectCancel(miniCluster(annotated(v1alpha1.AnnotationCancel, "3f2a000000")), nil)
		}, want: "nothing: it is asked for already"},
		"run gone twice": {effect: func() (string, error) {
			return actions.EffectRunGone(miniCluster(silent, annotated(v1alpha1.AnnotationRunGone, "3f2a000000")), []string{"3f2a"}, now)
		}, want: "nothing: it is declared already"},
		"resize": {effect: func() (string, error) { return actions.EffectResize(miniCluster()) },
			want: "changes the number of pods on each member in place, from 2 to 8; now it is 4"},
		"resize what is rigid": {effect: func() (string, error) { return actions.EffectResize(miniCluster(rigid)) },
			kind: actions.Invalid, err: "spec.miniCluster.maxSize: is not set"},
		"prune twice": {effect: func() (string, error) {
			s := source(blocked(v1alpha1.ConditionPruneBlocked, ""))
			s.Annotations = map[string]string{v1alpha1.AnnotationApprovePrune: fullHash}
			return actions.EffectApprovePrune(s, fullHash)
		}, want: "nothing: it is approved already"},
		"sync": {effect: plain(actions.EffectSyncSource(source())),
			want: "reads the repository now instead of within 1m0s, and applies what is new since main@1a2b3c4"},
		"prune": {effect: func() (string, error) {
			return actions.EffectApprovePrune(source(blocked(v1alpha1.ConditionPruneBlocked,
				"revision main@1a2b3c4 no longer declares FleetMiniCluster/a, FleetMiniCluster/b (so many objects at once); nothing was deleted. If that is meant: kubectl")), fullHash)
		}, want: "deletes from the hub, and with their runs from all members, what Git does not declare any more: revision main@1a2b3c4 no longer declares FleetMiniCluster/a, FleetMiniCluster/b (so many objects at once)"},
		"runs": {effect: func() (string, error) {
			return actions.EffectApproveRuns(source(blocked(v1alpha1.ConditionRunsBlocked,
				"revision main@1a2b3c4 would run 2 MiniClusters anew that have run before (a, b); these were not updated. If that is meant: kubectl")), fullHash)
		}, want: "applies what has run before and runs it anew: revision main@1a2b3c4 would run 2 MiniClusters anew that have run before (a, b)"},
		"drain": {effect: plain(actions.EffectDrain(member(), live)),
			want: "stops what runs on alpine (hpc/lammps (run 3f2a000000)), which starts from the beginning on another member where its placement allows that, and starts nothing new there"},
		"drain what is idle": {effect: plain(actions.EffectDrain(member(), nil)), want: "starts nothing new on alpine; nothing runs there"},
		"cordon":             {effect: plain(actions.EffectCordon(member(), live)), want: "starts nothing new on alpine; what runs there (hpc/lammps (run 3f2a000000)) goes on"},
		"uncordon": {effect: func() (string, error) { return actions.EffectUncordon(member(drained)) },
			want: "starts new runs on alpine again; what was moved away stays where it is"},
		"member gone": {effect: func() (string, error) { return actions.EffectMemberGone(member(unreachable), live, now, now) },
			want: "gives up what runs on alpine (hpc/lammps (run 3f2a000000)) and began before 2026-05-04T12:00:00Z, and it starts on other members: the last answer of alpine came 60m ago, and if anything still runs there, it runs twice at once until the member returns, so make sure first that nothing does; this cannot be taken back"},
		"member gone, heard from": {effect: func() (string, error) { return actions.EffectMemberGone(member(ready), nil, now, now.Add(time.Second)) },
			kind: actions.Invalid, err: "MemberCluster alpine: status.conditions[Ready]: is True"},
		"start": {effect: func() (string, error) { return actions.EffectStart(miniCluster()) },
			want: "creates FleetMiniCluster hpc/lammps and runs it once with 4 pods on each member that its placement selects"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.effect()
			expect(t, err, c.kind, c.err)
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestLiveOn(t *testing.T) {
	list := []v1alpha1.FleetMiniCluster{*miniCluster(), *miniCluster(ended)}
	if got := actions.LiveOn(list, "alpine"); len(got) != 1 || got[0] != "hpc/lammps (run 3f2a000000)" {
		t.Errorf("live on alpine: %q", got)
	}
}
