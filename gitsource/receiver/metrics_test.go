package receiver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestWebhooksAreCountedByWhatBecameOfThem(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		headers []string
		want    string
	}{
		"a push":                {gitHubPush, gitHub(gitHubPush, "push"), "accepted"},
		"something else":        {"{}", gitHub("{}", "issues"), "ignored"},
		"a ping":                {gitHubPing, gitHub(gitHubPing, "ping"), "ping"},
		"signed with no token":  {gitHubPush, nil, "unauthorized"},
		"signed for other text": {gitHubPush, gitHub("{}", "push"), "unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := newServer(Options{})
			path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
			sum := func() (out float64) {
				for _, r := range results {
					out += testutil.ToFloat64(answered.WithLabelValues(r))
				}
				return out + testutil.ToFloat64(answered.WithLabelValues(resultPing)) + testutil.ToFloat64(answered.WithLabelValues(resultIgnored))
			}
			all, before := sum(), testutil.ToFloat64(answered.WithLabelValues(c.want))
			send(s, path, c.body, c.headers...)
			if n := testutil.ToFloat64(answered.WithLabelValues(c.want)) - before; n != 1 {
				t.Errorf("%s was counted %v times", c.want, n)
			}
			if n := sum() - all; n != 1 {
				t.Errorf("one request was counted %v times", n)
			}
		})
	}
}
