package dashboard

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/minifleet/minifleet/internal/view"
)

// notYet is the answer of an operation that another commit implements.
func notYet[I, O any](context.Context, *I) (*body[O], error) {
	return nil, huma.Error501NotImplemented("not implemented")
}

func (s *Server) registerReads(api huma.API) {
	huma.Register(api, get("session", "/session", "session", "Who asks, and what may be asked for"), notYet[struct{}, Session])
	huma.Register(api, get("summary", "/summary", "fleet", "The fleet at a glance"), notYet[summaryRequest, view.Summary])
	huma.Register(api, get("list-miniclusters", "/miniclusters", "miniclusters", "List MiniClusters"), notYet[listRequest, view.Rows])
	huma.Register(api, get("get-minicluster", miniClusterAt, "miniclusters", "One MiniCluster, with its runs"), notYet[MiniClusterPath, view.MiniCluster])
	huma.Register(api, get("get-tree", miniClusterAt+"/tree", "miniclusters", "From the commit to the pods"), notYet[MiniClusterPath, view.TreeNode])
	huma.Register(api, get("get-manifest", miniClusterAt+"/manifest", "miniclusters", "As YAML"), notYet[MiniClusterPath, view.Manifest])
	huma.Register(api, get("list-events", miniClusterAt+"/events", "miniclusters", "Its events, for who may list events"), notYet[MiniClusterPath, view.Events])
	huma.Register(api, get("grid", "/grid", "fleet", "MiniClusters × members × revisions"), notYet[gridRequest, view.Grid])
	huma.Register(api, get("timeline", "/timeline", "fleet", "Runs of a time, per member"), notYet[timelineRequest, view.Timeline])
	huma.Register(api, get("list-members", "/members", "members", "List members"), notYet[struct{}, view.Members])
	huma.Register(api, get("get-member", memberAt, "members", "One member, with its nodes"), notYet[MemberPath, view.MemberDetail])
	huma.Register(api, get("list-sources", "/sources", "sources", "List sources"), notYet[struct{}, view.Sources])
	huma.Register(api, get("get-source", sourceAt, "sources", "One source, with its problems"), notYet[SourcePath, view.SourceDetail])
	huma.Register(api, get("changes", "/changes", "fleet", "What is different after a cursor, for who cannot keep a stream open"), notYet[changesRequest, view.Change])
}
