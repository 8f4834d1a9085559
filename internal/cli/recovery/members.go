package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// askTimeout bounds each request to a member, which may not be reachable from where the command runs.
const askTimeout = 5 * time.Second

// AskMember returns the latest epoch of a fleet that a member has on record, 0 for none, with the kubeconfig that the hub
// has for it.
type AskMember func(ctx context.Context, kubeconfig []byte, spec v1alpha1.MemberClusterSpec, fleetID string) (int64, error)

// Ask asks members themselves. Kubeconfigs are refused that the hub would refuse: nothing is run for them.
func Ask(ctx context.Context, kubeconfig []byte, spec v1alpha1.MemberClusterSpec, fleetID string) (int64, error) {
	config, err := clusters.RESTConfig(kubeconfig)
	if err != nil {
		return 0, err
	}
	config.Timeout = askTimeout
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return 0, err
	}
	member, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	epoch, _, err := clusters.EpochOn(ctx, member, spec, fleetID)
	return epoch, err
}

// asked is a member, with the kubeconfig for it where there is one.
type asked struct {
	name       string
	spec       v1alpha1.MemberClusterSpec
	kubeconfig []byte
}

// latestEpoch asks all members at once for the latest epoch that they have on record, and names, sorted, those that do
// not tell.
func latestEpoch(ctx context.Context, ask AskMember, members []asked, fleetID string) (latest int64, silent []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			epoch, err := int64(0), errors.New("there is no kubeconfig for it yet")
			if len(m.kubeconfig) > 0 {
				epoch, err = ask(ctx, m.kubeconfig, m.spec, fleetID)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("%s (%s)", m.name, shown(err)))
				return
			}
			latest = max(latest, epoch)
		})
	}
	wg.Wait()
	slices.Sort(silent)
	return latest, silent
}
