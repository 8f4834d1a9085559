package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

// offer is an action, with what it would do, and the error that it would have.
type offer struct {
	name   string
	runs   []string
	effect string
	err    error
}

// nothing begins the effects of actions that change nothing.
const nothing = "nothing: "

// action is an offer as the reader sees it. Denied says why they may not ask for it, whatever it would do.
func (o offer) action(denied string, sees view.Sees) view.Action {
	safe := func(text string) string {
		return sentence(view.HideOthers(sanitize.Text(text, sanitize.MaxMessage), sees))
	}
	a := view.Action{Name: o.name, Runs: o.runs, Effect: safe(o.effect), Enabled: denied == "" && o.err == nil}
	switch own := actions.AsError(o.err); {
	case own != nil:
		shown := *own
		shown.Object = "" // it is the one that the page is about
		if !strings.Contains(shown.Field, ".") {
			shown.Field = "" // of the request, and nothing is asked for yet
		}
		a.Reason = safe(shown.Error())
	case o.err != nil:
		a.Reason = safe(o.err.Error())
	case strings.HasPrefix(o.effect, nothing):
		a.Enabled, a.Reason = false, safe(strings.TrimPrefix(o.effect, nothing))
	}
	if denied != "" {
		a.Reason = denied
	}
	return a
}

// offered are actions as the reader sees them.
func offered(all []offer, denied string, sees view.Sees) []view.Action {
	out := make([]view.Action, 0, len(all))
	for _, o := range all {
		out = append(out, o.action(denied, sees))
	}
	return out
}

// denied says why a reader may not ask for anything to be done with an object; empty if they may. The API server decides
// again when they do.
func (s *Server) denied(ctx context.Context, r *reader, resource, namespace, name string) (string, error) {
	if !s.o.Writes {
		return readOnly, nil
	}
	may, err := r.access.May(ctx, "patch", resource, namespace, name)
	switch {
	case err != nil:
		return "", errRights
	case may:
		return "", nil
	case namespace == "":
		return fmt.Sprintf("You may not change %s.", resource), nil
	}
	return fmt.Sprintf("You may not change %s in namespace %s.", resource, namespace), nil
}

func (s *Server) miniClusterActions(ctx context.Context, r *reader, e *view.Entry) ([]view.Action, error) {
	denied, err := s.denied(ctx, r, "fleetminiclusters", e.Row.Namespace, e.Row.Name)
	if err != nil {
		return nil, err
	}
	return offered(miniClusterOffers(e, s.o.Now()), denied, r.sees()), nil
}

// miniClusterOffers are what can be asked for of a FleetMiniCluster. One that would change nothing is not enabled.
func miniClusterOffers(e *view.Entry, now time.Time) []offer {
	f := e.Object
	call := func(name string, of func(*v1alpha1.FleetMiniCluster) (string, error)) offer {
		effect, err := of(f)
		return offer{name: name, effect: effect, err: err}
	}
	cancel, cancelErr := actions.EffectCancel(f, nil)
	// Of the runs on members that cannot be reached, only those are taken of which the object itself says so.
	silent := actions.SilentRuns(f)
	declare, declareErr := actions.EffectRunGone(f, silent, now)
	if len(silent) == 0 {
		declareErr = errNoSilentRun
	}
	again := call("rerun", actions.EffectRerun)
	if again.err == nil && actions.RerunAsked(f, now) {
		again.effect = nothing + "one more run is asked for already"
	}
	return []offer{
		again,
		{name: "cancel", runs: e.LiveRuns(), effect: cancel, err: cancelErr},
		call("suspend", actions.EffectSuspend),
		call("resume", actions.EffectResume),
		call("scale", actions.EffectResize),
		{name: "run-gone", runs: silent, effect: declare, err: declareErr},
	}
}

var errNoSilentRun = errors.New("no live run is on a member that cannot be reached")

func (s *Server) sourceActions(ctx context.Context, r *reader, g *v1alpha1.GitSource) ([]view.Action, error) {
	denied, err := s.denied(ctx, r, "gitsources", g.Namespace, g.Name)
	if err != nil {
		return nil, err
	}
	sync := actions.EffectSyncSource(g)
	if !strings.HasPrefix(sync, nothing) && actions.SyncAsked(g) {
		sync = nothing + "it is asked for already"
	}
	prune, pruneErr := actions.EffectApprovePrune(g, g.Status.Commit)
	anew, anewErr := actions.EffectApproveRuns(g, g.Status.Commit)
	return offered([]offer{
		{name: "sync", effect: sync},
		{name: "approve-prune", effect: prune, err: pruneErr},
		{name: "approve-runs", effect: anew, err: anewErr},
	}, denied, r.sees()), nil
}

// memberActions tells of live runs that the reader may see, and that there are others.
func (s *Server) memberActions(ctx context.Context, r *reader, m *v1alpha1.MemberCluster, runs []view.Run, others int) ([]view.Action, error) {
	denied, err := s.denied(ctx, r, "memberclusters", "", m.Name)
	if err != nil {
		return nil, err
	}
	live := liveNames(runs, others)
	uncordon, uncordonErr := actions.EffectUncordon(m)
	return offered([]offer{
		{name: "drain", effect: actions.EffectDrain(m, live)},
		{name: "cordon", effect: actions.EffectCordon(m, live)},
		{name: "uncordon", effect: uncordon, err: uncordonErr},
	}, denied, r.sees()), nil
}

// liveNames names live runs that a reader may see, and says that there are others.
func liveNames(runs []view.Run, others int) []string {
	var out []string
	if others > 0 {
		out = append(out, "runs that you may not see")
	}
	for i := range runs {
		out = append(out, fmt.Sprintf("%s/%s (run %s)", runs[i].Namespace, runs[i].Name, runs[i].ID))
	}
	return out
}

// liveOn are the live runs on a member that the reader may see, and how many others there are.
func (s *Server) liveOn(r *reader, member string) (runs []view.Run, others int) {
	runs = view.LiveRuns(s.store.MiniClusters(r.sees()), member, s.store.Contexts(r.sees()))
	return runs, view.CountOnMembers(s.store.MiniClusters(nil))[member].Live - len(runs)
}
