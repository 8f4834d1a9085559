package dashboard

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func (s *Server) registerWrites(api huma.API) {
	huma.Register(api, post("start", "/miniclusters", "miniclusters", "Start a run: create a FleetMiniCluster"), func(context.Context, *startRequest) (*startResponse, error) {
		return nil, huma.Error501NotImplemented("not implemented")
	})
	huma.Register(api, post("rerun", miniClusterAt+"/rerun", "miniclusters", "Run it again"), notYet[rerunRequest, Done])
	huma.Register(api, post("cancel", miniClusterAt+"/cancel", "miniclusters", "Cancel live runs"), notYet[runsRequest, Done])
	huma.Register(api, post("suspend", miniClusterAt+"/suspend", "miniclusters", "Hold it: live runs are suspended, and none begins"), notYet[emptyRequest, Done])
	huma.Register(api, post("resume", miniClusterAt+"/resume", "miniclusters", "Let it go on"), notYet[emptyRequest, Done])
	huma.Register(api, post("scale", miniClusterAt+"/scale", "miniclusters", "Change its number of pods"), notYet[scaleRequest, Done])
	huma.Register(api, post("run-gone", miniClusterAt+"/run-gone", "miniclusters", "Declare runs gone whose member cannot be asked"), notYet[goneRequest, Done])
	huma.Register(api, post("sync-source", sourceAt+"/sync", "sources", "Read the repository now"), notYet[sourceRequest, Done])
	huma.Register(api, post("approve-prune", sourceAt+"/approve-prune", "sources", "Approve what a blocked prune would delete"), notYet[approveRequest, Done])
	huma.Register(api, post("approve-runs", sourceAt+"/approve-runs", "sources", "Approve that many MiniClusters run anew"), notYet[approveRequest, Done])
	huma.Register(api, post("drain", memberAt+"/drain", "members", "Evict live runs, and let none begin"), notYet[memberRequest, Done])
	huma.Register(api, post("cordon", memberAt+"/cordon", "members", "Let no run begin"), notYet[memberRequest, Done])
	huma.Register(api, post("uncordon", memberAt+"/uncordon", "members", "Let runs begin again"), notYet[memberRequest, Done])
}
