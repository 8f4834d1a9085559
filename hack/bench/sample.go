package main

import (
	"fmt"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// sample makes the objects of a fleet that nobody runs. The same number makes the same object.
type sample struct {
	// began is what times are counted back from.
	began time.Time
}

// What the objects of a sample are named after.
var (
	teams    = []string{"astro", "biology", "chemistry", "climate", "cosmology", "fusion", "genomics", "geology", "hydrology", "imaging", "lattice", "materials", "neutrino", "ocean", "physics", "plasma", "proteins", "seismic", "solar", "turbulence"}
	apps     = []string{"lammps", "gromacs", "amg2023", "kripke", "laghos", "minife", "nekbone", "quicksilver", "openfoam", "namd", "hpl", "osu-allreduce", "stream", "wrf", "resnet50"}
	variants = []string{"reaxff", "water", "strong", "weak", "baseline", "large", "nightly", "sweep", "tuned"}
	sites    = []string{"alder", "basalt", "cinder", "dolomite", "ember", "flint", "gneiss", "halite", "iron", "jasper"}
	subjects = []string{"Use more ranks", "Bump the image to 1.4", "Run longer", "Try the new partition", "Tune the exchange of halos", "Start a sweep over temperatures", "Go back to 32 nodes"}
	authors  = []string{"Ada Lovelace", "Grace Hopper", "Katherine Johnson", "Alan Turing", "Emmy Noether"}
	// states are how far FleetMiniClusters are, in their shares.
	states = []v1alpha1.State{
		v1alpha1.StateSucceeded, v1alpha1.StateRunning, v1alpha1.StateSucceeded, v1alpha1.StateRunning, v1alpha1.StateWaiting,
		v1alpha1.StateSucceeded, v1alpha1.StateRunning, v1alpha1.StateFailed, v1alpha1.StateSucceeded, v1alpha1.StateStarting,
		v1alpha1.StateSucceeded, v1alpha1.StateRunning, v1alpha1.StateWaiting, v1alpha1.StateSucceeded, v1alpha1.StateRunning,
		v1alpha1.StateFailed, v1alpha1.StateSuspended, v1alpha1.StateRunning, v1alpha1.StateSucceeded, v1alpha1.StateCancelled,
	}
)

const (
	sampleMembers = 50
	// sampleCommits is how many commits a source remembers, all that it can.
	sampleCommits = v1alpha1.MaxCommits
	// lostMember says of which members nothing has been heard for a while: every so many.
	lostMember = 25
)

// hashOf is a number without a pattern, for a number and what it is for.
func hashOf(i int, what string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, i, what)
	// The last steps of a better hash: FNV alone changes little when only the end of a text does.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// draw is a number below n.
func draw(i int, what string, n int) int {
	return int(hashOf(i, what) % uint64(n)) //nolint:gosec // n is small and positive
}

func drawOf[T any](i int, what string, from []T) T { return from[draw(i, what, len(from))] }

func (s *sample) ago(d time.Duration) *metav1.Time {
	t := metav1.NewTime(s.began.Add(-d).Truncate(time.Second))
	return &t
}

func memberOf(i int) string {
	return fmt.Sprintf("%s-%02d", sites[i%len(sites)], i)
}

func sampleCondition(kind string, is bool, reason, message string, at *metav1.Time) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *at}
}

// member is a MemberCluster with its status.
func (s *sample) member(i int) *v1alpha1.MemberCluster {
	nodes := 8 + draw(i, "nodes", 56)
	m := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: memberOf(i), Labels: map[string]string{"site": sites[i%len(sites)], "zone": string(rune('a' + i%3))}},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: memberOf(i)}},
		Status: v1alpha1.MemberClusterStatus{
			ClusterUID: fmt.Sprintf("%016x", hashOf(i, "cluster")), Version: "v1.36.0",
			Capacity:   &v1alpha1.MemberCapacity{Nodes: int32(nodes), CPU: fmt.Sprintf("%d/%d", nodes*20, nodes*64), Memory: fmt.Sprintf("%dGi/%dGi", nodes*90, nodes*256)}, //nolint:gosec // small
			Conditions: []metav1.Condition{sampleCondition(v1alpha1.ConditionReady, true, v1alpha1.ReasonConnected, "connected", s.ago(50*time.Hour))},
		},
	}
	if i%lostMember == lostMember-1 {
		m.Status.LastHeardTime = s.ago(20 * time.Minute)
		m.Status.Conditions[0] = sampleCondition(v1alpha1.ConditionReady, false, v1alpha1.ReasonUnreachable, "no answer: dial tcp: i/o timeout", s.ago(19*time.Minute))
		m.Status.Conditions[0].Status = metav1.ConditionUnknown
	}
	return m
}

// revisionOf is the revision of a commit of a source, the latest being commit 0.
func revisionOf(source, commit int) (hash, revision string) {
	hash = fmt.Sprintf("%016x%016x%08x", hashOf(source, fmt.Sprint("a", commit)), hashOf(source, fmt.Sprint("b", commit)), uint32(commit)) //nolint:gosec // small
	return hash, "main@" + hash[:7]
}

// sources are two for each namespace.
var sourceNames = []string{"fleet", "campaigns"}

// source is GitSource i, with its status.
func (s *sample) source(i int) *v1alpha1.GitSource {
	team := teams[i/len(sourceNames)]
	g := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: sourceNames[i%len(sourceNames)]},
		Spec: v1alpha1.GitSourceSpec{
			URL: "https://git.example.org/" + team + "/" + sourceNames[i%len(sourceNames)], Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute},
		},
	}
	g.Status.Conditions = []metav1.Condition{sampleCondition(v1alpha1.ConditionReady, true, v1alpha1.ReasonSucceeded, "all files are applied", s.ago(time.Hour))}
	for commit := range sampleCommits {
		hash, revision := revisionOf(i, commit)
		if commit == 0 {
			g.Status.Commit, g.Status.Revision = hash, revision
		}
		g.Status.Commits = append(g.Status.Commits, v1alpha1.Commit{
			Hash: hash, Revision: revision, Subject: drawOf(i*100+commit, "subject", subjects), Author: drawOf(i*100+commit, "author", authors), Time: s.ago(time.Duration(1+commit*5) * time.Hour),
		})
	}
	return g
}

// miniCluster is FleetMiniCluster i as it is created, without its status.
func (s *sample) miniCluster(i int) *v1alpha1.FleetMiniCluster {
	app, variant := drawOf(i, "app", apps), drawOf(i, "variant", variants)
	team := teams[i%len(teams)]
	source := i%len(teams)*len(sourceNames) + draw(i, "source", len(sourceNames))
	_, revision := revisionOf(source, draw(i, "commit", sampleCommits))
	size := int32(1 << draw(i, "size", 7))
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team, Name: fmt.Sprintf("%s-%s-%05d", app, variant, i),
			Labels: map[string]string{
				"app": app, "variant": variant, "campaign": fmt.Sprintf("c%02d", draw(i, "campaign", 40)), v1alpha1.LabelSource: sourceNames[source%len(sourceNames)],
			},
			Annotations: map[string]string{v1alpha1.AnnotationSourcePath: fmt.Sprintf("%s/%s.yaml#%d", app, variant, i%7), v1alpha1.AnnotationSourceRevision: revision},
		},
		Spec: v1alpha1.FleetMiniClusterSpec{
			MiniCluster: fluxv1alpha2.MiniClusterSpec{Size: size, Containers: []fluxv1alpha2.MiniClusterContainer{{
				Image: "ghcr.io/example/" + app + ":1." + fmt.Sprint(i%9), Command: app + " -in in." + variant + " -v x 16 -v y 16", RunFlux: true,
			}}},
			PlacementRef: &v1alpha1.LocalReference{Name: drawOf(i, "placement", []string{"anywhere", "large-memory", "nearby"})}, Priority: int32(i % 3),
		},
	}
}

// version is what makes the status of a FleetMiniCluster another one.
type version struct {
	// note is in the message of a run that failed or runs.
	note string
	// flipped has one that runs succeed, and one that has succeeded run.
	flipped bool
	// missing is how many pods fewer than all are ready.
	missing int32
}

// stateOf is how far FleetMiniCluster i is.
func stateOf(i int, v version) v1alpha1.State {
	state := states[(i/len(teams)+i*7)%len(states)]
	switch {
	case v.flipped && state == v1alpha1.StateRunning:
		return v1alpha1.StateSucceeded
	case v.flipped && state == v1alpha1.StateSucceeded:
		return v1alpha1.StateRunning
	}
	return state
}

// status is that of FleetMiniCluster i: one to five earlier runs, and what is going on.
func (s *sample) status(i int, v version) v1alpha1.FleetMiniClusterStatus {
	f := s.miniCluster(i)
	size, member, state := f.Spec.MiniCluster.Size, memberOf(draw(i, "member", sampleMembers)), stateOf(i, v)
	digest := fmt.Sprintf("%016x", hashOf(i, "digest"))
	out := v1alpha1.FleetMiniClusterStatus{
		ObservedGeneration: 1, State: state, Sync: v1alpha1.Synced, Health: v1alpha1.Healthy, Revision: f.Annotations[v1alpha1.AnnotationSourceRevision], Digest: digest, Replicas: size,
		Placement: &v1alpha1.PlacementDecision{
			Digest: digest, Clusters: []string{member}, Wanted: 1,
			Decisions: []v1alpha1.ClusterDecision{{Name: member, Score: int32(draw(i, "score", 100)), Reason: fmt.Sprintf("most room: %d of %d CPU are free", 8*size, 32*size)}}, //nolint:gosec // small
		},
		Runs: s.history(i, f),
	}
	begun := time.Duration(5+draw(i, "begun", 5000)) * time.Second
	run := v1alpha1.Run{
		ID: runID(i, 0), Cluster: member, ClusterUID: fmt.Sprintf("%016x", hashOf(i, "cluster")), Digest: digest, Revision: out.Revision, State: v1alpha1.RunRunning,
		StartTime: s.ago(begun + 4*time.Second), RunningTime: s.ago(begun), JobUID: types.UID(fmt.Sprintf("%08x-5f0c-4a57-9c3e-%012x", uint32(hashOf(i, "job")), i)), //nolint:gosec // a UID
	}
	pods := v1alpha1.PodCounts{Desired: size, Active: size, Ready: size - min(size, v.missing)}
	line := v1alpha1.ClusterStatus{Name: member, Sync: v1alpha1.Synced, Health: v1alpha1.Healthy, Run: run.ID}
	ended := s.ago(begun / 3)
	switch state {
	case v1alpha1.StateWaiting:
		out.Sync, out.Health, out.Placement.Clusters, out.Placement.Decisions = v1alpha1.OutOfSync, v1alpha1.Missing, []string{}, nil
		for k := range 3 {
			out.Placement.Waiting = append(out.Placement.Waiting, v1alpha1.RejectedCluster{
				Name: memberOf((i + k*7) % sampleMembers), Reason: fmt.Sprintf("%d of %d pods fit; node-%d lacks %d CPU", size/2, size, i%7, 1+i%5),
			})
		}
		out.Conditions = s.conditions(state, v1alpha1.ReasonInsufficientCapacity, "no member has room", s.ago(begun))
		out.Summary = &v1alpha1.Summary{Clusters: "0/1", Pods: fmt.Sprintf("0/%d", size)}
		return out
	case v1alpha1.StateRunning:
		out.Health, line.Message = v1alpha1.Progressing, v.note
	case v1alpha1.StateStarting:
		out.Health, run.State, run.RunningTime, pods.Ready = v1alpha1.Progressing, v1alpha1.RunStarting, nil, size/2
		line.Message = fmt.Sprintf("%d of %d pods are ready: pod %s-%d pulls its image", size/2, size, f.Name, size-1)
	case v1alpha1.StateSuspended:
		out.Health, run.SuspendedTime, pods.Active, pods.Ready = v1alpha1.Suspended, ended, 0, 0
	case v1alpha1.StateFailed:
		code := int32(1 + i%130)
		out.Health, run.State, run.CompletionTime = v1alpha1.Degraded, v1alpha1.RunFailed, ended
		run.Exit = &v1alpha1.RunExit{Pod: fmt.Sprintf("%s-%d-x7k2p", f.Name, i%int(size)), Container: "main", ExitCode: &code, Reason: "Error", Message: drawOf(i, "exit", []string{"out of tea", "no convergence after 500 steps", "cannot open in.lj"})}
		run.Message = fmt.Sprintf("pod %s, container main, exit code %d: %s %s", run.Exit.Pod, code, run.Exit.Message, v.note)
		pods.Active, pods.Ready, pods.Failed = 0, 0, 1
	case v1alpha1.StateCancelled:
		run.State, run.CompletionTime, run.Stop = v1alpha1.RunCancelled, ended, v1alpha1.StopCancelled
		pods.Active, pods.Ready = 0, 0
	default:
		run.State, run.CompletionTime = v1alpha1.RunSucceeded, ended
		pods.Active, pods.Ready, pods.Succeeded = 0, 0, size
	}
	line.State, line.Health, line.Pods = run.State, out.Health, pods
	out.Conditions = s.conditions(state, v1alpha1.ReasonSynced, string(state)+" on "+member, s.ago(begun))
	out.Summary = &v1alpha1.Summary{Clusters: "1/1", Pods: fmt.Sprintf("%d/%d", pods.Ready+pods.Succeeded, size), Members: member}
	out.Clusters, out.Runs = []v1alpha1.ClusterStatus{line}, append(out.Runs, run)
	return out
}

func runID(i, earlier int) string {
	return fmt.Sprintf("%010x", hashOf(i, fmt.Sprint("run", earlier))&0xffffffffff)
}

// history are one to five runs that have ended, oldest first.
func (s *sample) history(i int, f *v1alpha1.FleetMiniCluster) []v1alpha1.Run {
	var out []v1alpha1.Run
	for k := 1 + draw(i, "runs", 5); k > 0; k-- {
		ended := time.Duration(k*24+i%24) * time.Hour
		run := v1alpha1.Run{
			ID: runID(i, k), Cluster: memberOf(draw(i, fmt.Sprint("member", k), sampleMembers)), Digest: fmt.Sprintf("%016x", hashOf(i, fmt.Sprint("digest", k))), Revision: f.Annotations[v1alpha1.AnnotationSourceRevision],
			State: v1alpha1.RunSucceeded, StartTime: s.ago(ended + time.Hour), RunningTime: s.ago(ended + 59*time.Minute), CompletionTime: s.ago(ended), JobUID: types.UID(fmt.Sprintf("%08x-77aa-4a57-9c3e-%012x", uint32(hashOf(i, fmt.Sprint("job", k))), i)), //nolint:gosec // a UID
		}
		if (i+k)%6 == 0 {
			run.State, run.Message = v1alpha1.RunFailed, "exit code 1: no convergence after 500 steps"
		}
		out = append(out, run)
	}
	return out
}

func (s *sample) conditions(state v1alpha1.State, reason, message string, at *metav1.Time) []metav1.Condition {
	failed := state == v1alpha1.StateFailed
	return []metav1.Condition{
		sampleCondition(v1alpha1.ConditionReady, state != v1alpha1.StateWaiting, reason, message, at),
		sampleCondition(v1alpha1.ConditionHealthy, !failed && state != v1alpha1.StateWaiting, reason, message, at),
		sampleCondition(v1alpha1.ConditionComplete, state == v1alpha1.StateSucceeded, v1alpha1.ReasonProgressing, message, at),
		sampleCondition(v1alpha1.ConditionFailed, failed, v1alpha1.ReasonRunFailed, message, at),
	}
}
