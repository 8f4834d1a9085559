package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// notificationFlags say what Notifications may do.
type notificationFlags struct {
	on      bool
	allowed []string
}

func (f *notificationFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "notifications", true, "send what Notifications ask for (docs/notifications.md)")
	flags.StringSliceVar(&f.allowed, "notification-allowed-cidrs", nil,
		"ranges of addresses that Notifications may send to although they are in --git-refused-cidrs or are the hub's own, e.g. that of an Alertmanager's Service")
}

// options are what the flags say. Dashboard is its URL, empty where it is not served.
func (f *notificationFlags) options(dashboard string) (o controllers.NotificationOptions, err error) {
	o.Off, o.Dashboard = !f.on, dashboard
	if o.Allowed, err = fetch.ParsePrefixes(f.allowed); err != nil {
		return o, fmt.Errorf("--notification-allowed-cidrs: %w", err)
	}
	return o, nil
}
