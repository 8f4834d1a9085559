package runs_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// situation is one point of the domain of Next: every combination of what is wanted, what the ledger says
// and what the member has, with two digests, two tokens and two sizes.
type situation struct {
	wanted runs.Wanted
	last   *v1alpha1.Run
	ended  bool // the ledger knows the Job's run to have ended, where that is not last
	job    *runs.Job
	pod    string // of the latest run, where its Job no longer exists
}

func (s situation) next() runs.Step {
	return runs.Next(runs.Input{Wanted: s.wanted, Last: s.last, Job: s.job, Pod: s.pod, Ended: func(id string) bool {
		if s.last != nil && s.last.ID == id {
			return s.last.State.Ended()
		}
		return s.ended
	}})
}

func (s situation) ledgerLive() bool { return s.last != nil && !s.last.State.Ended() }
func (s situation) jobLive() bool    { return s.job != nil && !s.job.Finished }
func (s situation) own() bool        { return s.job != nil && s.last != nil && s.job.RunID == s.last.ID }

// mayRelease says whether the ledger calls the run of this very Job live. One that runs has had a Job, be it not known which.
func (s situation) mayRelease() bool {
	return s.ledgerLive() && s.own() && (s.last.JobUID == "" && s.last.State != v1alpha1.RunRunning || string(s.last.JobUID) == s.job.UID)
}
func (s situation) jobEnded() bool {
	if s.own() {
		return s.last.State.Ended()
	}
	return s.job != nil && s.ended
}

func (s situation) cancelled() bool {
	return s.last != nil && slices.Contains(s.wanted.Cancel, s.last.ID)
}

func (s situation) String() string {
	out := fmt.Sprintf("wanted %+v", s.wanted)
	if s.last != nil {
		out += fmt.Sprintf("; ledger %s digest %s token %q %s", s.last.ID, s.last.Digest, s.last.RerunAt, s.last.State)
	}
	if s.job != nil {
		out += fmt.Sprintf("; Job %+v, its run has ended: %t", *s.job, s.jobEnded())
	}
	return out
}

var bools = []bool{false, true}

func everyWanted(yield func(runs.Wanted)) {
	for _, d := range []string{"1", "2"} {
		for _, tok := range []string{"", "t"} {
			for _, onChange := range []v1alpha1.OnChange{"", v1alpha1.AfterCompletion, v1alpha1.Replace} {
				for _, suspend := range bools {
					for _, chosen := range bools {
						for _, hold := range []string{"", "waiting"} {
							for _, n := range []int32{2, 3} {
								w := runs.Wanted{Digest: d, RerunAt: tok, OnChange: onChange, Suspend: suspend, Chosen: chosen, Hold: hold, Size: n}
								yield(w)
								if n == 2 {
									yield(with(w, cleanup))
									yield(with(w, retries(1)))
									yield(with(w, cancel("a")))
									yield(with(w, drained))
								}
							}
						}
					}
				}
			}
		}
	}
}

func with(w runs.Wanted, change func(*runs.Wanted)) runs.Wanted {
	change(&w)
	return w
}

func everyLast() []*v1alpha1.Run {
	out := []*v1alpha1.Run{nil}
	lost := line("a", v1alpha1.RunRunning)
	lost.LostTime = &metav1.Time{}
	byUser := line("a", v1alpha1.RunStopping)
	byUser.Stop = v1alpha1.StopCancelled
	withJob := line("a", v1alpha1.RunRunning)
	withJob.JobUID = "first"
	created := line("a", v1alpha1.RunStarting)
	created.JobUID = "first"
	out = append(out, lost, byUser, withJob, created)
	for _, state := range []v1alpha1.RunState{v1alpha1.RunSucceeded, v1alpha1.RunFailed, v1alpha1.RunCancelled} {
		said := line("a", state) // or so somebody has made the ledger say
		said.JobUID = "first"
		out = append(out, said)
	}
	declared := stopped(v1alpha1.StopDeclaredGone, line("a", v1alpha1.RunReplaced))
	declared.JobUID = "first"
	out = append(out, declared)
	for _, why := range []v1alpha1.StopReason{v1alpha1.StopNotStarted, v1alpha1.StopLost, v1alpha1.StopDrained} {
		out = append(out, stopped(why, line("a", v1alpha1.RunStopping)))
	}
	for _, state := range []v1alpha1.RunState{
		v1alpha1.RunStarting, v1alpha1.RunRunning, v1alpha1.RunStopping, v1alpha1.RunSucceeded, v1alpha1.RunFailed, v1alpha1.RunReplaced, v1alpha1.RunCancelled,
	} {
		for _, tok := range []string{"", "t"} {
			out = append(out, answering(tok, line("a", state)))
		}
	}
	return out
}

func everyJob() []*runs.Job {
	out := []*runs.Job{nil}
	for _, id := range []string{"a", "x", ""} {
		for _, deleting := range bools {
			for _, suspended := range []struct{ is, byUs bool }{{false, false}, {true, true}, {true, false}} {
				for _, outcome := range []struct{ finished, succeeded bool }{{false, false}, {true, false}, {true, true}} {
					out = append(out, &runs.Job{
						RunID: id, Digest: "1", Size: 2, Deleting: deleting, Suspended: suspended.is, SuspendedByUs: suspended.byUs,
						Finished: outcome.finished, Succeeded: outcome.succeeded, UID: "first",
					})
				}
			}
			out = append(out, &runs.Job{RunID: id, Digest: "1", Size: 2, Deleting: deleting, UID: "first", Succeeding: true})
			out = append(out, &runs.Job{RunID: id, Digest: "1", Size: 2, Deleting: deleting, UID: "first", Pods: v1alpha1.PodCounts{Ready: 2}})
			for _, uid := range []string{"first", "second"} {
				out = append(out, &runs.Job{
					RunID: id, Digest: "1", Size: 2, Deleting: deleting, Suspended: true, SuspendedByUs: true, Unreleased: true, UID: uid,
				})
			}
		}
	}
	return out
}

// everySituation visits those with a digest. Whether the ledger knows a Job's run to have ended besides is asked only of
// a Job whose run is not the latest.
func everySituation(digest string, yield func(situation)) {
	lasts, jobs := everyLast(), everyJob()
	everyWanted(func(w runs.Wanted) {
		if w.Digest != digest {
			return
		}
		for _, last := range lasts {
			for _, j := range jobs {
				yield(situation{w, last, false, j, ""})
				if j != nil && (last == nil || last.ID != j.RunID) {
					yield(situation{w, last, true, j, ""})
				}
				if j == nil {
					yield(situation{w, last, false, nil, "pod"})
				}
			}
		}
	})
}

// What must hold of every single decision, whatever the situation.
func TestNextExhaustively(t *testing.T) {
	invariants := map[string]func(situation, runs.Step) bool{
		"no run begins while the ledger has a live one": func(s situation, n runs.Step) bool {
			return n.Action != runs.Begin || !s.ledgerLive()
		},
		"no run begins while the member has a Job of ours, ended or not": func(s situation, n runs.Step) bool {
			return n.Action != runs.Begin || s.job == nil
		},
		"what has succeeded, failed or been cancelled is not begun again, unless it failed and has retries left": func(s situation, n runs.Step) bool {
			return n.Action != runs.Begin || !s.wanted.IsCurrent(s.last) || s.wanted.WillRetry(s.last)
		},
		"no run begins on a member that is not chosen, while suspended, or while held": func(s situation, n runs.Step) bool {
			return n.Action != runs.Begin || s.wanted.Chosen && !s.wanted.Suspend && s.wanted.Hold == ""
		},
		"a Job is created only for a line that says Starting, is current, chosen, and never had a Job": func(s situation, n runs.Step) bool {
			return n.Action != runs.Create ||
				s.job == nil && s.last != nil && s.last.State == v1alpha1.RunStarting && s.last.JobUID == "" && s.wanted.IsCurrent(s.last) && s.wanted.Chosen
		},
		"a live Job is deleted only if its run is over, or outdated and to be replaced": func(s situation, n runs.Step) bool {
			return n.Action != runs.DeleteJob || !s.jobLive() || s.jobEnded() ||
				s.own() && s.last.State == v1alpha1.RunStopping || s.job.Unreleased && !s.mayRelease()
		},
		"the Job of what has run for what is wanted stays, unless it is to be cleaned up or tried again": func(s situation, n runs.Step) bool {
			return n.Action != runs.DeleteJob || s.wanted.Cleanup || s.wanted.WillRetry(s.last) || !s.own() || s.jobLive() || !s.jobEnded() || !s.wanted.IsCurrent(s.last)
		},
		"a run is stopped only if it is live, and cancelled, evicted, or outdated and to be replaced or not begun": func(s situation, n runs.Step) bool {
			return n.Action != runs.Stop || s.ledgerLive() && s.own() &&
				(s.cancelled() || s.wanted.Evict != "" || s.wanted.OnChange == v1alpha1.Replace && !s.wanted.IsCurrent(s.last) ||
					s.job.Unreleased && (!s.wanted.IsCurrent(s.last) || !s.wanted.Chosen))
		},
		"a Job that was never released is neither released nor adopted, unless it is that of a live run, current and chosen": func(s situation, n runs.Step) bool {
			return s.job == nil || !s.job.Unreleased || n.Action != runs.Adopt &&
				(n.Action != runs.Adjust || s.mayRelease() && s.wanted.IsCurrent(s.last) && s.wanted.Chosen)
		},
		"a run that was to be stopped goes on only where that was because its pods did not run, and they do": func(s situation, n runs.Step) bool {
			return n.Action != runs.Keep || !s.ledgerLive() || s.own() && s.jobLive() && !s.job.Deleting && s.job.Pods.Ready > 0 && s.last.State == v1alpha1.RunStopping &&
				(s.last.Stop == v1alpha1.StopNotStarted || s.last.Stop == v1alpha1.StopLost)
		},
		"a run that has ended in the ledger goes on only where its very Job is live, or has not failed, and nobody has declared it gone": func(s situation, n runs.Step) bool {
			return n.Action != runs.Keep || s.ledgerLive() || s.own() && !s.job.Unreleased &&
				(s.jobLive() && !s.job.Deleting || s.job.Succeeded && s.last.State == v1alpha1.RunFailed) &&
				string(s.last.JobUID) == s.job.UID && s.last.Stop != v1alpha1.StopDeclaredGone
		},
		"the very Job of a run that the ledger calls ended is deleted only where it was declared gone, or never released": func(s situation, n runs.Step) bool {
			return n.Action != runs.DeleteJob || s.ledgerLive() || !s.own() || !s.jobLive() || string(s.last.JobUID) != s.job.UID ||
				s.last.Stop == v1alpha1.StopDeclaredGone || s.job.Unreleased
		},
		"a run whose pods run is not stopped because they did not": func(s situation, n runs.Step) bool {
			return n.Action != runs.DeleteJob || !s.ledgerLive() || !s.own() || s.job.Pods.Ready == 0 || s.cancelled() || s.wanted.Evict != "" ||
				s.last.Stop != v1alpha1.StopNotStarted && s.last.Stop != v1alpha1.StopLost
		},
		"a run is called cancelled only if a person has cancelled it": func(s situation, n runs.Step) bool {
			return n.State != v1alpha1.RunCancelled || s.cancelled() || s.last.Stop == v1alpha1.StopCancelled
		},
		"no run ends, is given up or is made while a pod of it may run": func(s situation, n runs.Step) bool {
			return s.pod == "" || !s.ledgerLive() || n.Action == runs.Nothing
		},
		"what is stopped says why, and what has ended otherwise does not": func(_ situation, n runs.Step) bool {
			stopped := n.Action == runs.Stop || n.State == v1alpha1.RunReplaced || n.State == v1alpha1.RunCancelled || n.Reason == v1alpha1.ReasonJobDeleted
			return stopped == (n.Stop != "")
		},
		"what is evicted is neither made, adjusted nor ignored": func(s situation, n runs.Step) bool {
			return s.wanted.Evict == "" || n.Action != runs.Create && (n.Action != runs.Adjust) &&
				(n.Action != runs.Nothing || !s.own() || !s.jobLive() || !s.ledgerLive() || s.job.Deleting || s.job.Succeeding)
		},
		"a Job of a live run that is about to have succeeded is neither stopped, deleted nor adjusted": func(s situation, n runs.Step) bool {
			return !s.ledgerLive() || !s.own() || !s.job.Succeeding || n.Action == runs.Nothing || n.Action == runs.DeleteJob && n.Reason == v1alpha1.ReasonCleanedUp
		},
		"a Job that is being deleted is not deleted, adjusted or adopted": func(s situation, n runs.Step) bool {
			return s.job == nil || !s.job.Deleting || n.Action != runs.DeleteJob && n.Action != runs.Adjust && n.Action != runs.Adopt
		},
		"what deletes or adjusts or adopts has a Job to do it to": func(s situation, n runs.Step) bool {
			return s.job != nil || n.Action != runs.DeleteJob && n.Action != runs.Adjust && n.Action != runs.Adopt
		},
		"only a Job of a live run is adjusted, and the size of a current one only": func(s situation, n runs.Step) bool {
			return n.Action != runs.Adjust || s.ledgerLive() && s.own() && s.jobLive() &&
				(s.wanted.IsCurrent(s.last) || n.Reason != v1alpha1.ReasonResized)
		},
		"only a run that is live in the ledger finishes, into a state that has ended": func(s situation, n runs.Step) bool {
			return n.Action != runs.Finish || s.ledgerLive() && n.State.Ended()
		},
		"no run finishes while its Job is live": func(s situation, n runs.Step) bool {
			return n.Action != runs.Finish || s.job == nil || s.own() && s.job.Finished
		},
		"a run succeeds because its own Job did, and for no other reason": func(s situation, n runs.Step) bool {
			return (n.State == v1alpha1.RunSucceeded) == (s.ledgerLive() && s.own() && s.job.Finished && s.job.Succeeded)
		},
		"only a run that the ledger does not know is adopted": func(s situation, n runs.Step) bool {
			return n.Action != runs.Adopt || !s.ledgerLive() && !s.own() && !s.jobEnded()
		},
		"clean-up waits for what is live, and for what is not known yet": func(s situation, n runs.Step) bool {
			return n.Action != runs.Cleanup ||
				!s.wanted.Chosen && !s.ledgerLive() && (!s.jobLive() || s.job.Deleting) && (s.job == nil || s.job.Deleting || s.jobEnded() || s.job.RunID == "")
		},
		"a member that is not chosen gets nothing new": func(s situation, n runs.Step) bool {
			return s.wanted.Chosen || n.Action != runs.Begin && n.Action != runs.Create
		},
		"what does nothing for long says why, unless all is as wanted": func(s situation, n runs.Step) bool {
			return n.Action != runs.Nothing || n.Reason != "" || s.wanted.IsCurrent(s.last)
		},
		"what is explained has a message, and nothing else has, but that a Job ends with the message of the Job": func(_ situation, n runs.Step) bool {
			return n.Action == runs.Finish || n.Explained() == (n.Message != "")
		},
		"a reason that people are told to wait for comes with a message": func(_ situation, n runs.Step) bool {
			return n.Action != runs.Nothing || (n.Reason == "") == (n.Message == "")
		},
	}
	for _, digest := range []string{"1", "2"} {
		t.Run("digest "+digest, func(t *testing.T) {
			t.Parallel()
			checkEverySituation(t, digest, invariants)
		})
	}
}

func checkEverySituation(t *testing.T, digest string, invariants map[string]func(situation, runs.Step) bool) {
	names := slices.Sorted(maps.Keys(invariants))
	holds := make([]func(situation, runs.Step) bool, len(names)) // a map takes longer than what it holds
	for i, name := range names {
		holds[i] = invariants[name]
	}
	count := 0
	everySituation(digest, func(s situation) {
		count++
		step := s.next()
		for i := range holds {
			if !holds[i](s, step) {
				t.Errorf("%s: %s -> %+v", names[i], s, step)
			}
		}
		if again := s.next(); again != step {
			t.Fatalf("%s -> %+v, and then %+v", s, step, again)
		}
		if t.Failed() {
			t.FailNow()
		}
	})
	if count < 100_000 {
		t.Errorf("only %d situations", count)
	}
}
