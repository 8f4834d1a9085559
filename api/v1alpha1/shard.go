package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// controllerLease is the Lease of the controller without --shard.
const controllerLease = "controller.minifleet.dev"

// ControllerLease is the name of the Lease that the active controller of a shard renews, in its namespace.
func ControllerLease(shard string) string {
	if shard == "" {
		return controllerLease
	}
	return shard + ".shard." + controllerLease
}

// IsControllerLease says whether a Lease is that of a controller, and of which shard.
func IsControllerLease(name string) (shard string, is bool) {
	if name == controllerLease {
		return "", true
	}
	return strings.CutSuffix(name, ".shard."+controllerLease)
}

// CheckShard says what is wrong with the key of a shard. Empty is no shard, and valid.
func CheckShard(key string) error {
	if key == "" {
		return nil
	}
	if errs := validation.IsDNS1123Label(key); len(errs) > 0 {
		return fmt.Errorf("%q: %s", key, strings.Join(errs, ", "))
	}
	return nil
}

// ShardOf is the shard of an object of the hub; empty is none.
func ShardOf(obj metav1.Object) string { return obj.GetLabels()[LabelShard] }

// ShardName is how messages name a shard.
func ShardName(key string) string {
	if key == "" {
		return "no shard"
	}
	return fmt.Sprintf("shard %q", key)
}

// ShardArgument is the argument of kubectl label --overwrite that puts an object into a shard.
func ShardArgument(key string) string {
	if key == "" {
		return LabelShard + "-"
	}
	return LabelShard + "=" + key
}
