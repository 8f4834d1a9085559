package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/controllers/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// gitFlags say what GitSources may do.
type gitFlags struct {
	urlPrefixes, refused, allowed []string
	objects, perNamespace, atOnce int
	storeMiB                      int
	defaultServiceAccount         string
}

func (f *gitFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.urlPrefixes, "git-allowed-url-prefixes", nil,
		"what the URLs of GitSources have to begin with, e.g. https://git.example.org/team; empty: anything")
	flags.StringSliceVar(&f.refused, "git-refused-cidrs", fetch.DefaultRefused(),
		"ranges of addresses that Git servers are not at, and that Notifications do not send to; the addresses of the hub's own Services are refused besides")
	flags.StringSliceVar(&f.allowed, "git-allowed-cidrs", nil, "ranges of addresses that are not refused after all")
	flags.IntVar(&f.objects, "git-max-objects", budget.DefaultMaxObjects, "how many objects one GitSource may declare")
	flags.IntVar(&f.perNamespace, "git-sources-per-namespace", gitsource.DefaultPerNamespace, "how many GitSources of one namespace are reconciled at once")
	flags.IntVar(&f.atOnce, "git-large-sources", gitsource.DefaultLarge,
		fmt.Sprintf("how many GitSources at once may take more than %d MiB of memory, up to %d MiB each", budget.SmallBytes>>20, budget.DefaultMaxMemoryBytes>>20))
	flags.IntVar(&f.storeMiB, "git-store-mib", fetch.DefaultStoreBytes>>20,
		"how much is kept of repositories together, in MiB, so that of a new commit only what is new is fetched; 0: nothing")
	flags.StringVar(&f.defaultServiceAccount, "default-service-account", "",
		"service account that GitSources without spec.serviceAccountName act as, in their namespace; empty: the hub's own")
}

// options are what the flags say.
func (f *gitFlags) options() (o controllers.GitOptions, err error) {
	for _, n := range []struct {
		flag  string
		value int
	}{{"git-max-objects", f.objects}, {"git-sources-per-namespace", f.perNamespace}, {"git-large-sources", f.atOnce}} {
		if n.value < 1 {
			return o, fmt.Errorf("--%s must be at least 1", n.flag)
		}
	}
	if f.defaultServiceAccount != "" && len(validation.IsDNS1123Subdomain(f.defaultServiceAccount)) > 0 {
		return o, fmt.Errorf("--default-service-account: %q is no name of a service account", f.defaultServiceAccount)
	}
	if f.storeMiB < 0 {
		return o, errors.New("--git-store-mib must be at least 0")
	}
	if o.StoreBytes = int64(f.storeMiB) << 20; o.StoreBytes == 0 {
		o.StoreBytes = -1
	}
	o.Settings = gitsource.Settings{
		PerNamespace: f.perNamespace, Large: f.atOnce, DefaultServiceAccount: f.defaultServiceAccount, Limits: budget.Limits{MaxObjects: f.objects},
	}
	if o.BuildCommand, err = buildCommand(); err != nil {
		return o, err
	}
	if o.Network.URLPrefixes, err = fetch.ParseURLPrefixes(f.urlPrefixes); err != nil {
		return o, fmt.Errorf("--git-allowed-url-prefixes: %w", err)
	}
	if o.Network.Refused, err = fetch.ParsePrefixes(f.refused); err != nil {
		return o, fmt.Errorf("--git-refused-cidrs: %w", err)
	}
	if o.Network.Allowed, err = fetch.ParsePrefixes(f.allowed); err != nil {
		return o, fmt.Errorf("--git-allowed-cidrs: %w", err)
	}
	return o, nil
}
