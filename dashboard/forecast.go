package dashboard

import (
	"context"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/tenant"
)

// ForecastItem is a FleetMiniCluster as it might be. Where there is one of this name, its runs count.
type ForecastItem struct {
	Name      string         `json:"name" maxLength:"253"`
	Spec      map[string]any `json:"spec" doc:"The spec of a FleetMiniCluster."`
	Placement map[string]any `json:"placement,omitempty" doc:"The spec of the Placement that it would name; absent where that would not be there."`
	RerunAt   string         `json:"rerunAt,omitempty" maxLength:"253" doc:"Value of the annotation minifleet.dev/rerun-at."`
	Alone     bool           `json:"alone,omitempty" doc:"The other items do not count with it."`
}

// ForecastQuestion asks where FleetMiniClusters would be placed if all of them were there.
type ForecastQuestion struct {
	Namespace string         `json:"namespace" maxLength:"63"`
	Items     []ForecastItem `json:"items" maxItems:"100"`
}

// ForecastAnswer has a forecast for each item.
type ForecastAnswer struct {
	Items []plan.Forecast `json:"items"`
}

type forecastRequest struct{ Body ForecastQuestion }

func (s *Server) registerForecast(api huma.API) {
	op := post("forecast", "/forecasts", "fleet", "Where MiniClusters would be placed, and whether there is room, without anything being done")
	op.Description = "For who may list MemberClusters, or create FleetMiniClusters in the namespace, and so find out anyway."
	huma.Register(api, op, reading(s, s.forecast))
}

// forecast says where FleetMiniClusters would be placed, by what the controller knows now and the rules that it decides by.
// One question is answered at a time: they take the processor that the controller has.
func (s *Server) forecast(ctx context.Context, r *reader, _ string, in *forecastRequest) (*ForecastAnswer, error) {
	namespace := in.Body.Namespace
	if !r.miniClusters.Has(namespace) {
		return nil, notFound()
	}
	if err := mayForesee(ctx, r, namespace); err != nil {
		return nil, err
	}
	asks, err := s.asks(namespace, in.Body.Items)
	if err != nil {
		return nil, err
	}
	if s.o.Members == nil || s.o.Queue == nil {
		return nil, unavailable("members are not connected here")
	}
	select {
	case s.foreseeing <- struct{}{}:
		defer func() { <-s.foreseeing }()
	case <-ctx.Done():
		return nil, errBusy
	}
	var ns corev1.Namespace
	if err := s.o.Hub.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil && !apierrors.IsNotFound(err) {
		return nil, unavailable("the labels of the namespace could not be read; try again")
	}
	f := plan.Foreseer{
		Snapshot: plan.Snapshot{NamespaceLabels: ns.Labels, Members: s.connections(namespace), Now: s.o.Now()},
		Queue:    s.o.Queue.Copy(), Room: s.roomWithout,
	}
	return &ForecastAnswer{Items: append([]plan.Forecast{}, f.All(asks)...)}, nil
}

// mayForesee lets those ask who see what members have free, or who could find it out by creating what they ask about.
func mayForesee(ctx context.Context, r *reader, namespace string) error {
	if r.members {
		return nil
	}
	may, err := r.access.May(ctx, "create", "fleetminiclusters", namespace, "")
	switch {
	case err != nil:
		return errRights
	case !may:
		return huma.Error403Forbidden("this takes the right to list memberclusters, or to create fleetminiclusters in the namespace")
	}
	return nil
}

// asks are the items as objects.
func (s *Server) asks(namespace string, items []ForecastItem) ([]plan.Ask, error) {
	out := make([]plan.Ask, len(items))
	for i := range items {
		item := &items[i]
		f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: item.Name}}
		if e := s.store.MiniCluster(store.Key{Namespace: namespace, Name: item.Name}); e != nil {
			f = e.Object.DeepCopy()
		}
		f.Spec = v1alpha1.FleetMiniClusterSpec{}
		wrong := strictly(fmt.Sprintf("body.items[%d].spec", i), item.Spec, &f.Spec)
		out[i] = plan.Ask{Object: f, Alone: item.Alone}
		if item.Placement != nil {
			out[i].Placement = &v1alpha1.PlacementSpec{}
			wrong = append(wrong, strictly(fmt.Sprintf("body.items[%d].placement", i), item.Placement, out[i].Placement)...)
		}
		if len(wrong) > 0 {
			return nil, invalidRequest(wrong[0].Location+": "+wrong[0].Message, wrong[0])
		}
		if f.Annotations == nil {
			f.Annotations = map[string]string{}
		}
		if f.Annotations[v1alpha1.AnnotationRerunAt] = item.RerunAt; item.RerunAt == "" {
			delete(f.Annotations, v1alpha1.AnnotationRerunAt)
		}
	}
	return out, nil
}

// connections are the members, and how the hub is connected to them.
func (s *Server) connections(namespace string) []plan.Member {
	all := s.store.Members()
	out := make([]plan.Member, len(all))
	for i, cluster := range all {
		state, attempted := s.o.Members.State(cluster.Name)
		c := plan.Connection{
			Attempted: attempted, Ready: state.Ready, Reason: state.Reason, Message: state.Message, LastHeard: state.LastHeard, Since: state.Since,
		}
		if m, err := s.o.Members.Member(cluster.Name); err == nil {
			c.Connected, c.UID, c.NextNamespace = true, m.UID, tenant.Target(&m.Spec, namespace)
			c.Room, c.RoomError = m.RoomState(), m.RoomError()
		}
		out[i] = plan.Member{Cluster: cluster, Connection: c}
	}
	return out
}

// roomWithout is what a member has free with some runs counted as ended.
func (s *Server) roomWithout(member string, runs []string) *nodeusage.Room {
	m, err := s.o.Members.Member(member)
	if err != nil {
		return &nodeusage.Room{State: nodeusage.Pending}
	}
	return m.Room(runs...)
}
