package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

// writeTimeout is how long the hub's API server has for all requests of one write.
const writeTimeout = 5 * time.Second

// readOnly is the answer to all writes where they are not switched on.
const readOnly = "This dashboard is read-only. Who administers the hub switches writes on with --dashboard-writes of the controller; " +
	"kubectl works without it, with your own rights."

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func (s *Server) registerWrites(api huma.API) {
	start := post("start", "/miniclusters", "miniclusters", "Start a run: create a FleetMiniCluster")
	start.DefaultStatus = http.StatusCreated
	start.Responses = map[string]*huma.Response{"200": {
		Description: "A dry run, or created by an earlier request with the same Idempotency-Key.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: api.OpenAPI().Components.Schemas.Schema(typeOf[Started](), true, "Started")}},
	}}
	writing(s, api, start, s.start)
	acting(s, api, post("rerun", miniClusterAt+"/rerun", "miniclusters", "Run it again"), s.rerun)
	acting(s, api, post("cancel", miniClusterAt+"/cancel", "miniclusters", "Cancel live runs"), s.cancel)
	acting(s, api, post("suspend", miniClusterAt+"/suspend", "miniclusters", "Hold it: live runs are suspended, and none begins"), s.suspend)
	acting(s, api, post("resume", miniClusterAt+"/resume", "miniclusters", "Let it go on"), s.resume)
	acting(s, api, post("scale", miniClusterAt+"/scale", "miniclusters", "Change its number of pods"), s.scale)
	acting(s, api, post("run-gone", miniClusterAt+"/run-gone", "miniclusters", "Declare runs gone whose member cannot be asked"), s.runGone)
	acting(s, api, post("sync-source", sourceAt+"/sync", "sources", "Read the repository now"), s.syncSource)
	acting(s, api, post("approve-prune", sourceAt+"/approve-prune", "sources", "Approve what a blocked prune would delete"), s.approvePrune)
	acting(s, api, post("approve-runs", sourceAt+"/approve-runs", "sources", "Approve that many MiniClusters run anew"), s.approveRuns)
	acting(s, api, post("drain", memberAt+"/drain", "members", "Evict live runs, and let none begin"), s.drain)
	acting(s, api, post("cordon", memberAt+"/cordon", "members", "Let no run begin"), s.cordon)
	acting(s, api, post("uncordon", memberAt+"/uncordon", "members", "Let runs begin again"), s.uncordon)
}

// writer is a reader who asks for something to be done, with a client that is known to the hub by the person's own token:
// its API server says whether the person may, and records who it was.
type writer struct {
	*reader
	hub client.Client
}

func (s *Server) writerOf(ctx context.Context) (*writer, error) {
	r, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	who, err := s.o.Person(ctx)
	if err != nil {
		return nil, errRights
	}
	token := ""
	if who.Token != nil {
		token = who.Token()
	}
	if token == "" {
		return nil, huma.Error401Unauthorized("log in")
	}
	hub, err := hubClient(s.o.Config, token)
	if err != nil {
		return nil, err
	}
	return &writer{r, hub}, nil
}

// writing registers an operation that changes something on the hub. Where that is not switched on, it is refused before
// anything else is said.
func writing[I, O any](s *Server, api huma.API, o huma.Operation, f func(context.Context, *writer, *I) (*O, error)) {
	o.Middlewares = append(o.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		switch {
		case !s.o.Writes:
			_ = huma.WriteErr(api, ctx, http.StatusForbidden, readOnly) // the client has disconnected
		case ctx.Operation().RequestBody == nil && !emptyBody(ctx.BodyReader()):
			_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "this takes no body", &huma.ErrorDetail{Location: "body", Message: "is not empty: send none, or {}"})
		default:
			next(ctx)
		}
	})
	huma.Register(api, o, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		w, err := s.writerOf(ctx)
		if err != nil {
			return nil, err
		}
		return f(ctx, w, in)
	})
}

// emptyBody says whether a body is none, or {}.
func emptyBody(r io.Reader) bool {
	if r == nil {
		return true
	}
	decoder := json.NewDecoder(io.LimitReader(r, 1<<10))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&struct{}{})
	if err == nil {
		_, err = decoder.Token()
	}
	return errors.Is(err, io.EOF)
}

// acting is writing for an operation that says what it has done.
func acting[I any](s *Server, api huma.API, o huma.Operation, f func(context.Context, *writer, *I) (*Done, error)) {
	writing(s, api, o, func(ctx context.Context, w *writer, in *I) (*body[Done], error) {
		done, err := f(ctx, w, in)
		if err != nil {
			return nil, err
		}
		return &body[Done]{*done}, nil
	})
}

// doneOf tells what has become of an action: its effect on the object as it was. The API server has not been asked to
// change anything where nothing was to be changed; whoever may not change the object is told so nevertheless.
func doneOf[T client.Object](ctx context.Context, s *Server, w *writer, resource string, dryRun bool, effect func(T) (string, error), out actions.Outcome[T], err error) (*Done, error) {
	if err != nil {
		return nil, s.refusal(err, inBody)
	}
	if !out.Changed {
		denied, err := s.denied(ctx, w.reader, resource, out.Before.GetNamespace(), out.Before.GetName())
		if err != nil {
			return nil, err
		}
		if denied != "" {
			return nil, huma.Error403Forbidden(denied)
		}
	}
	said, _ := effect(out.Before) // an action that was done has an effect
	switch {
	case !out.Changed && out.Note != "":
		said = nothing + out.Note
	case !out.Changed && !strings.HasPrefix(said, nothing):
		said = nothing + "it was asked for before"
	}
	return &Done{Message: sentence(said), Changed: out.Changed, DryRun: dryRun}, nil
}

// inBody is where in the body of an action a field comes from.
func inBody(field string) string {
	switch field {
	case "run":
		return "body.runs"
	case "revision":
		return "body.revision"
	case "spec.miniCluster.size":
		return "body.size"
	}
	return field
}

// miniClusterAction is done with a FleetMiniCluster that the person may see.
func (s *Server) miniClusterAction(
	ctx context.Context, w *writer, in ActionRequest, do func(client.ObjectKey, actions.Options) (actions.MiniCluster, error), effect func(*v1alpha1.FleetMiniCluster) (string, error),
) (*Done, error) {
	if !w.miniClusters.Has(in.Namespace) || !nameable(in.Namespace, in.Name) {
		return nil, notFound()
	}
	out, err := do(client.ObjectKey{Namespace: in.Namespace, Name: in.Name}, actions.Options{DryRun: in.DryRun})
	return doneOf(ctx, s, w, "fleetminiclusters", in.DryRun, effect, out, err)
}

// nameable says whether an object can have such names: others would be parts of another path.
func nameable(names ...string) bool {
	for _, name := range names {
		if name == "" || len(content.IsPathSegmentName(name)) > 0 {
			return false
		}
	}
	return true
}

func (s *Server) rerun(ctx context.Context, w *writer, in *rerunRequest) (*Done, error) {
	return s.miniClusterAction(ctx, w, in.ActionRequest, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		if in.IdempotencyKey == "" {
			return actions.RerunOnce(ctx, w.hub, key, s.o.Now(), o)
		}
		return actions.Rerun(ctx, w.hub, key, tokenOf(in.IdempotencyKey), o)
	}, actions.EffectRerun)
}

func (s *Server) cancel(ctx context.Context, w *writer, in *runsRequest) (*Done, error) {
	var runs []string
	if in.Body != nil {
		runs = in.Body.Runs
	}
	return s.miniClusterAction(ctx, w, in.ActionRequest, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		return actions.Cancel(ctx, w.hub, key, runs, o)
	}, func(f *v1alpha1.FleetMiniCluster) (string, error) { return actions.EffectCancel(f, runs) })
}

func (s *Server) suspend(ctx context.Context, w *writer, in *emptyRequest) (*Done, error) {
	return s.miniClusterAction(ctx, w, in.ActionRequest, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		return actions.Suspend(ctx, w.hub, key, o)
	}, actions.EffectSuspend)
}

func (s *Server) resume(ctx context.Context, w *writer, in *emptyRequest) (*Done, error) {
	return s.miniClusterAction(ctx, w, in.ActionRequest, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		return actions.Resume(ctx, w.hub, key, o)
	}, actions.EffectResume)
}

func (s *Server) scale(ctx context.Context, w *writer, in *scaleRequest) (*Done, error) {
	return s.miniClusterAction(ctx, w, in.ActionRequest, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		return actions.Scale(ctx, w.hub, key, in.Body.Size, o)
	}, func(f *v1alpha1.FleetMiniCluster) (string, error) { return actions.EffectScale(f, in.Body.Size) })
}

// runGone is refused without a confirmation, with what it means. A dry run tells that without one.
func (s *Server) runGone(ctx context.Context, w *writer, in *goneRequest) (*Done, error) {
	unsure := !in.Body.Confirm && !in.DryRun
	asked := in.ActionRequest
	asked.DryRun = asked.DryRun || unsure
	done, err := s.miniClusterAction(ctx, w, asked, func(key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
		return actions.RunGone(ctx, w.hub, key, in.Body.Runs, o)
	}, func(f *v1alpha1.FleetMiniCluster) (string, error) {
		return actions.EffectRunGone(f, in.Body.Runs, s.o.Now())
	})
	if err == nil && unsure {
		return nil, invalidRequest(done.Message+" Nothing was done.", &huma.ErrorDetail{
			Location: "body.confirm", Message: "is not true: make sure that no pod of these runs runs any more, and say so",
		})
	}
	return done, err
}

// sourceAction is done with a GitSource that the person may see.
func (s *Server) sourceAction(
	ctx context.Context, w *writer, at SourcePath, dryRun bool, do func(client.ObjectKey, actions.Options) (actions.Source, error), effect func(*v1alpha1.GitSource) (string, error),
) (*Done, error) {
	if !w.sources.Has(at.Namespace) || !nameable(at.Namespace, at.Name) {
		return nil, notFound()
	}
	out, err := do(client.ObjectKey{Namespace: at.Namespace, Name: at.Name}, actions.Options{DryRun: dryRun})
	return doneOf(ctx, s, w, "gitsources", dryRun, effect, out, err)
}

func (s *Server) syncSource(ctx context.Context, w *writer, in *sourceRequest) (*Done, error) {
	return s.sourceAction(ctx, w, in.SourcePath, in.DryRun, func(key client.ObjectKey, o actions.Options) (actions.Source, error) {
		return actions.SyncOnce(ctx, w.hub, key, s.o.Now(), o)
	}, func(g *v1alpha1.GitSource) (string, error) { return actions.EffectSyncSource(g), nil })
}

func (s *Server) approvePrune(ctx context.Context, w *writer, in *approveRequest) (*Done, error) {
	return s.sourceAction(ctx, w, in.SourcePath, in.DryRun, func(key client.ObjectKey, o actions.Options) (actions.Source, error) {
		return actions.ApprovePrune(ctx, w.hub, key, in.Body.Revision, o)
	}, func(g *v1alpha1.GitSource) (string, error) { return actions.EffectApprovePrune(g, in.Body.Revision) })
}

func (s *Server) approveRuns(ctx context.Context, w *writer, in *approveRequest) (*Done, error) {
	return s.sourceAction(ctx, w, in.SourcePath, in.DryRun, func(key client.ObjectKey, o actions.Options) (actions.Source, error) {
		return actions.ApproveRuns(ctx, w.hub, key, in.Body.Revision, o)
	}, func(g *v1alpha1.GitSource) (string, error) { return actions.EffectApproveRuns(g, in.Body.Revision) })
}

// memberAction is done with a member, if the person may see members.
func (s *Server) memberAction(
	ctx context.Context, w *writer, in *memberRequest,
	do func(context.Context, client.Client, string, actions.Options) (actions.Member, error), effect func(*v1alpha1.MemberCluster) (string, error),
) (*Done, error) {
	if !w.members || !nameable(in.Name) {
		return nil, notFound()
	}
	out, err := do(ctx, w.hub, in.Name, actions.Options{DryRun: in.DryRun})
	return doneOf(ctx, s, w, "memberclusters", in.DryRun, effect, out, err)
}

func (s *Server) drain(ctx context.Context, w *writer, in *memberRequest) (*Done, error) {
	return s.memberAction(ctx, w, in, actions.Drain, func(m *v1alpha1.MemberCluster) (string, error) {
		return actions.EffectDrain(m, liveNames(s.liveOn(w.reader, m.Name))), nil
	})
}

func (s *Server) cordon(ctx context.Context, w *writer, in *memberRequest) (*Done, error) {
	return s.memberAction(ctx, w, in, actions.Cordon, func(m *v1alpha1.MemberCluster) (string, error) {
		return actions.EffectCordon(m, liveNames(s.liveOn(w.reader, m.Name))), nil
	})
}

func (s *Server) uncordon(ctx context.Context, w *writer, in *memberRequest) (*Done, error) {
	return s.memberAction(ctx, w, in, actions.Uncordon, actions.EffectUncordon)
}
