package dashboard

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/minifleet/minifleet/internal/view"
)

func (s *Server) registerLive(api huma.API) {
	huma.Register(api, get("get-why", miniClusterAt+"/why", "miniclusters", "Why it does not run, or runs where it does"), notYet[MiniClusterPath, view.Why])
	huma.Register(api, get("queue", "/queue", "fleet", "The lines for room"), notYet[struct{}, view.Queue])
	huma.Register(api, get("get-diff", miniClusterAt+"/diff", "miniclusters", "What is wanted against what is there"), notYet[MiniClusterPath, view.Differences])
	logs := get("logs", miniClusterAt+"/logs", "miniclusters", "Log of a pod, for who may get fleetminiclusters/logs")
	logs.Responses = map[string]*huma.Response{"200": {
		Description: "Lines of JSON, one LogLine each.",
		Content:     map[string]*huma.MediaType{"application/x-ndjson": {Schema: api.OpenAPI().Components.Schemas.Schema(typeOf[LogLine](), true, "LogLine")}},
	}}
	huma.Register(api, logs, func(context.Context, *logsRequest) (*huma.StreamResponse, error) {
		return nil, huma.Error501NotImplemented("not implemented")
	})
	stream := get("stream", "/stream", "fleet", "Changes as they happen (server-sent events)")
	stream.Description = "Events: hello and change hold a Change, with its cursor as id; reset: everything is to be read again, and a Change has the cursor from then on; ping every 15 s, with now; bye: no more will come, the data is the reason (forbidden, login, shutdown, unavailable). Last-Event-ID goes on after a cursor."
	stream.Responses = map[string]*huma.Response{"200": {Description: "A stream of events.", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	huma.Register(api, stream, s.stream)
}

type streamRequest struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"128"`
	After       string `query:"after" maxLength:"128" doc:"A cursor, where the header cannot be set."`
}
