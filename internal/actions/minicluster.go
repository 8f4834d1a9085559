package actions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// MiniCluster is the outcome of an action on a FleetMiniCluster.
type MiniCluster = Outcome[*v1alpha1.FleetMiniCluster]

func editMiniCluster(ctx context.Context, c client.Client, key client.ObjectKey, o Options, change func(*v1alpha1.FleetMiniCluster) (string, error)) (MiniCluster, error) {
	return edit(ctx, c, func() *v1alpha1.FleetMiniCluster { return &v1alpha1.FleetMiniCluster{} }, key, o, change)
}

// Rerun asks for one more run on each member. The token identifies the request: the same one again changes nothing, so
// that a button that is pressed twice asks once. That holds for as long as a run that answers it is on record.
func Rerun(ctx context.Context, c client.Client, key client.ObjectKey, token string, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) { return rerun(f, token) })
}

// RerunOnce is Rerun by a token of its own, unless one more run is asked for already: then nothing is changed.
func RerunOnce(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		if err := notDeleting(f); err != nil {
			return "", err
		}
		if RerunAsked(f, now) {
			return "one more run is asked for already", nil
		}
		return rerun(f, now.UTC().Format(time.RFC3339Nano))
	})
}

func rerun(f *v1alpha1.FleetMiniCluster, token string) (note string, err error) {
	if err := checkToken(token); err != nil {
		return "", err
	}
	if err := notDeleting(f); err != nil {
		return "", err
	}
	if token != f.Annotations[v1alpha1.AnnotationRerunAt] && answered(f, token) {
		return "it has been run for this request before", nil
	}
	annotate(f, v1alpha1.AnnotationRerunAt, token)
	if f.Suspended() {
		return "it is suspended: the run starts once it is resumed", nil
	}
	return "", nil
}

// answered says whether a run for a token is on record.
func answered(f *v1alpha1.FleetMiniCluster, token string) bool {
	return f.Status.LastHandledRerunAt == token ||
		slices.ContainsFunc(f.Status.Runs, func(r v1alpha1.Run) bool { return r.RerunAt == token }) ||
		slices.ContainsFunc(f.Status.Succeeded, func(r v1alpha1.EndedRun) bool { return r.RerunAt == token })
}

// doubleClick is within which two requests without tokens are one, though the run of the first one has begun.
const doubleClick = 3 * time.Second

// RerunAsked says whether one more run is asked for that has not begun anywhere, or has just begun.
func RerunAsked(f *v1alpha1.FleetMiniCluster, now time.Time) bool {
	token := f.Annotations[v1alpha1.AnnotationRerunAt]
	if token == "" {
		return false
	}
	return !answered(f, token) || slices.ContainsFunc(f.Status.Runs, func(r v1alpha1.Run) bool {
		return r.RerunAt == token && r.RestoredTime == nil && r.StartTime != nil && now.Sub(r.StartTime.Time) < doubleClick
	})
}

// maxToken is how much of a token the hub compares, in bytes.
const maxToken = 253

// checkToken refuses what the hub would not compare as it is.
func checkToken(token string) error {
	plain := strings.IndexFunc(token, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) < 0
	if token != "" && len(token) <= maxToken && plain {
		return nil
	}
	return &Error{
		Kind: Invalid, Field: "token", Message: fmt.Sprintf("%q is no token", token),
		Remedy: fmt.Sprintf("use 1 to %d printable characters without spaces that no request has used before, such as the time", maxToken),
	}
}

// Cancel has live runs stopped, all that there are where none is named. A run is named by its id, or by the beginning
// of it if no other begins so. It is not started again until the MiniCluster changes or somebody asks for that.
func Cancel(ctx context.Context, c client.Client, key client.ObjectKey, runIDs []string, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		runs, err := liveRuns(f, runIDs)
		if err != nil {
			return "", err
		}
		addRuns(f, v1alpha1.AnnotationCancel, runs)
		return "", nil
	})
}

// RunGone declares of runs that they no longer run, though their members cannot be asked. A person has to have made
// sure of that: what the runs were for starts elsewhere. It is refused for a run whose member is heard from, where it
// would mean nothing now and, once that member is lost, something that nobody has made sure of.
func RunGone(ctx context.Context, c client.Client, key client.ObjectKey, runIDs []string, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		runs, err := silentRuns(f, runIDs)
		if err != nil {
			return "", err
		}
		addRuns(f, v1alpha1.AnnotationRunGone, runs)
		return "", nil
	})
}

// silentRuns are live runs that are named, on members that cannot be asked.
func silentRuns(f *v1alpha1.FleetMiniCluster, ids []string) ([]*v1alpha1.Run, error) {
	if len(ids) == 0 {
		return nil, &Error{Kind: Invalid, Field: "run", Message: "no run is named", Remedy: "name each run that is known to run no longer"}
	}
	runs, err := liveRuns(f, ids)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		if line := clusterOf(f, run.Cluster); line != nil && line.Run == run.ID && line.Sync != v1alpha1.SyncUnknown {
			return nil, &Error{
				Kind: Invalid, Field: "run", Message: fmt.Sprintf("%s is on %s, which is heard from", run.ID, run.Cluster),
				Remedy: "cancel it instead",
			}
		}
	}
	return runs, nil
}

// liveRuns are the live runs that are named, or all of them.
func liveRuns(f *v1alpha1.FleetMiniCluster, ids []string) ([]*v1alpha1.Run, error) {
	var out []*v1alpha1.Run
	if len(ids) == 0 {
		for i := range f.Status.Runs {
			if !f.Status.Runs[i].State.Ended() {
				out = append(out, &f.Status.Runs[i])
			}
		}
		if len(out) == 0 {
			return nil, &Error{Kind: Invalid, Field: "run", Message: "no run is live", Remedy: "there is nothing to stop; to keep a new one from starting, suspend it"}
		}
		return out, nil
	}
	for _, id := range ids {
		run, err := FindRun(f, id)
		if err != nil {
			return nil, err
		}
		if run.State.Ended() {
			return nil, &Error{
				Kind: Invalid, Field: "run", Message: fmt.Sprintf("%s on %s has ended already (%s)", run.ID, run.Cluster, run.State),
				Remedy: "name a run that is live",
			}
		}
		out = append(out, run)
	}
	return out, nil
}

// FindRun returns the run in the ledger with this id, or whose id alone begins so.
func FindRun(f *v1alpha1.FleetMiniCluster, id string) (*v1alpha1.Run, error) {
	var found []*v1alpha1.Run
	for i := range f.Status.Runs {
		run := &f.Status.Runs[i]
		if run.ID == id {
			return run, nil
		}
		if id != "" && strings.HasPrefix(run.ID, id) {
			found = append(found, run)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &Error{
			Kind: NotFound, Object: Describe(f, client.ObjectKeyFromObject(f)), Field: "run",
			Message: fmt.Sprintf("there is no run %q on record", id), Remedy: "status.runs has those that are",
		}
	}
	return nil, &Error{
		Kind: Invalid, Object: Describe(f, client.ObjectKeyFromObject(f)), Field: "run",
		Message: fmt.Sprintf("the ids of %d runs begin with %q", len(found), id), Remedy: "use more of the id",
	}
}

// LiveRuns are the ids of the runs that Cancel stops where none is named.
func LiveRuns(f *v1alpha1.FleetMiniCluster) []string {
	runs, _ := liveRuns(f, nil) // that there are none is no error here
	return idsOf(runs)
}

// SilentRuns are the ids of the runs that RunGone takes.
func SilentRuns(f *v1alpha1.FleetMiniCluster) []string {
	var out []string
	for _, id := range LiveRuns(f) {
		if _, err := silentRuns(f, []string{id}); err == nil {
			out = append(out, id)
		}
	}
	return out
}

func idsOf(runs []*v1alpha1.Run) []string {
	var out []string
	for _, run := range runs {
		out = append(out, run.ID)
	}
	return out
}

func listed(f *v1alpha1.FleetMiniCluster, annotation string) []string {
	return strings.FieldsFunc(f.Annotations[annotation], func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
}

// allListed says whether it is asked for all of some runs already.
func allListed(f *v1alpha1.FleetMiniCluster, annotation string, runs []*v1alpha1.Run) bool {
	have := listed(f, annotation)
	return !slices.ContainsFunc(runs, func(run *v1alpha1.Run) bool { return !slices.Contains(have, run.ID) })
}

// addRuns adds ids to a list in an annotation, and leaves all that is there as it is.
func addRuns(f *v1alpha1.FleetMiniCluster, annotation string, runs []*v1alpha1.Run) {
	list, have := f.Annotations[annotation], listed(f, annotation)
	for _, run := range runs {
		if slices.Contains(have, run.ID) {
			continue
		}
		have = append(have, run.ID)
		if list != "" {
			list += ","
		}
		list += run.ID
	}
	if list != f.Annotations[annotation] {
		annotate(f, annotation, list)
	}
}

func clusterOf(f *v1alpha1.FleetMiniCluster, member string) *v1alpha1.ClusterStatus {
	for i := range f.Status.Clusters {
		if f.Status.Clusters[i].Name == member {
			return &f.Status.Clusters[i]
		}
	}
	return nil
}

// Suspend holds a FleetMiniCluster back by an annotation that Git leaves alone.
func Suspend(ctx context.Context, c client.Client, key client.ObjectKey, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		if err := notDeleting(f); err != nil {
			return "", err
		}
		if !f.Held() {
			annotate(f, v1alpha1.AnnotationHold, "true")
		}
		return "", nil
	})
}

// Resume takes away whatever suspends a FleetMiniCluster, unless Git declares that it is suspended: then nothing is
// changed.
func Resume(ctx context.Context, c client.Client, key client.ObjectKey, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		if err := notDeleting(f); err != nil {
			return "", err
		}
		if err := checkResume(f); err != nil {
			return "", err
		}
		dropAnnotation(f, v1alpha1.AnnotationHold)
		f.Spec.Suspend = false
		return "", nil
	})
}

func checkResume(f *v1alpha1.FleetMiniCluster) error {
	inGit := f.Labels[v1alpha1.LabelSource] != "" && f.Annotations[v1alpha1.AnnotationSourceSuspend] == "true"
	if !f.Spec.Suspend || !inGit {
		return nil
	}
	return &Error{
		Kind: Conflict, Field: "spec.suspend", Message: "is true in Git (" + declaredAt(f) + "), which would put it back",
		Remedy: "change it there",
	}
}

// declaredAt says where Git declares an object: GitSource NAME, FILE.
func declaredAt(object client.Object) string {
	at := "GitSource " + object.GetLabels()[v1alpha1.LabelSource]
	if path := object.GetAnnotations()[v1alpha1.AnnotationSourcePath]; path != "" {
		at += ", " + path
	}
	return at
}

// Scale changes the size of an elastic MiniCluster in place, from minSize to maxSize.
func Scale(ctx context.Context, c client.Client, key client.ObjectKey, size int32, o Options) (MiniCluster, error) {
	return editMiniCluster(ctx, c, key, o, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		if err := notDeleting(f); err != nil {
			return "", err
		}
		if err := checkSize(f, size); err != nil {
			return "", err
		}
		f.Spec.MiniCluster.Size = size
		if f.Labels[v1alpha1.LabelSource] == "" {
			return "", nil
		}
		return "the size in Git (" + declaredAt(f) + ") comes back when this MiniCluster is changed there", nil
	})
}

func checkSize(f *v1alpha1.FleetMiniCluster, size int32) error {
	spec := &f.Spec.MiniCluster
	const at = "spec.miniCluster.size"
	switch {
	case spec.MaxSize == 0:
		return &Error{
			Kind: Invalid, Field: "spec.miniCluster.maxSize", Message: "is not set, so the MiniCluster has one size: with another one it would run anew",
			Remedy: "change size where the MiniCluster is declared, or set maxSize there",
		}
	case size > spec.MaxSize:
		return &Error{Kind: Invalid, Field: at, Message: fmt.Sprintf("%d is above maxSize, %d", size, spec.MaxSize), Remedy: "choose a smaller one"}
	case size < max(spec.MinSize, 1):
		return &Error{Kind: Invalid, Field: at, Message: fmt.Sprintf("%d is below the least, %d", size, max(spec.MinSize, 1)), Remedy: "choose a larger one; to run nothing, suspend it"}
	}
	return nil
}
