package recovery

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/backup"
)

// refuseController returns an error where a controller runs on the hub, or would at any time. Otherwise it returns when the lease
// was renewed last: it is not renewed again, by whichever clock, where none runs.
func refuseController(ctx context.Context, hub client.Reader, namespace string, now time.Time) (renewed time.Time, err error) {
	var deployments appsv1.DeploymentList
	if err := hub.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return renewed, fmt.Errorf("reading Deployments of namespace %s, to see whether a controller runs: %w", namespace, err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		labels := d.Spec.Template.Labels
		if labels["app.kubernetes.io/name"] == "minifleet" && labels["app.kubernetes.io/component"] == "controller" &&
			(d.Spec.Replicas == nil || *d.Spec.Replicas > 0) {
			return renewed, fmt.Errorf("the controller runs, in Deployment %s/%s, and must not while its objects are restored: stop it with `kubectl -n %s scale deployment %s --replicas 0`, and start it afterwards",
				namespace, d.Name, namespace, d.Name)
		}
	}
	var leases coordinationv1.LeaseList
	if err := hub.List(ctx, &leases, client.InNamespace(namespace)); err != nil {
		return renewed, fmt.Errorf("reading Leases of namespace %s, to see whether a controller runs: %w", namespace, err)
	}
	for i := range leases.Items {
		at, err := refuseActive(&leases.Items[i], now)
		if renewed = later(renewed, at); err != nil {
			return renewed, err
		}
	}
	return renewed, nil
}

// refuseActive returns an error where the controller of a shard, or of none, holds its lease, and when that was renewed last.
func refuseActive(lease *coordinationv1.Lease, now time.Time) (renewed time.Time, err error) {
	spec := &lease.Spec
	if _, is := v1alpha1.IsControllerLease(lease.Name); !is ||
		spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return renewed, nil
	}
	renewed = spec.RenewTime.Time
	until := renewed.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	if !now.Before(until) {
		return renewed, nil
	}
	return renewed, fmt.Errorf("controller %s is active on the hub: it holds Lease %s/%s, until %s if it is not renewed; stop it, and try again then",
		*spec.HolderIdentity, lease.Namespace, lease.Name, until.UTC().Format(time.RFC3339))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// present are the objects of MiniFleet that the hub has, by how they are told of.
type present struct {
	objects map[string]presence
	runs    bool // there is a FleetMiniCluster
}

type presence struct {
	digest   string
	uid      string
	deleting bool
	status   bool // it has one
}

// readPresent reads all objects of these kinds.
func readPresent(ctx context.Context, hub client.Reader, kinds []schema.GroupVersionKind) (present, error) {
	out := present{objects: map[string]presence{}}
	for _, kind := range kinds {
		_, err := eachOf(ctx, hub, kind, func(obj *unstructured.Unstructured) error {
			out.runs = out.runs || kind.Kind == kindFleetMiniCluster
			status, _, _ := unstructured.NestedMap(obj.Object, "status") // an object of the API has no other
			out.objects[about(obj)] = presence{
				digest: backup.Digest(backup.Prepare(backup.Keep(obj), nil).Object),
				uid:    string(obj.GetUID()), deleting: obj.GetDeletionTimestamp() != nil, status: len(status) > 0,
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
