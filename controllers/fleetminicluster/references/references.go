// Package references keeps Secrets and ConfigMaps that MiniClusters name on the members that need them. In come
// references, the hub's objects and what members have; out come copies, and what is missing.
//
//	satisfy.go      before a run begins: is everything there, or can it be brought
//	maintain.go     beside a run: what the hub has is what the member has
//	release.go      after it: what nobody uses any more is deleted
package references

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Keeper keeps what MiniClusters reference.
type Keeper struct {
	Hub      *hubobjects.Reader
	Client   client.Client
	Provider *clusters.Provider
	// FleetID is the identity of the fleet, HubUID the UID of the hub's kube-system namespace.
	FleetID, HubUID string
	// Interval is how often the hub's objects are read that live runs have copies of.
	Interval time.Duration
	// Deleted says whether a FleetMiniCluster is known to exist no more.
	Deleted func(context.Context, fleet.Origin) bool

	// users are the keys of FleetMiniClusters that copies name as their users, until they are reconciled.
	users sync.Map
}

// User is a FleetMiniCluster as the user of copies.
type User struct {
	Origin fleet.Origin
	// Namespace is its own, on the hub.
	Namespace string
	// On is the namespace that its objects are in on a member.
	On func(context.Context, *clusters.Member) string
}
