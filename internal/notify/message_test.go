package notify_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

var sender = types.NamespacedName{Namespace: "physics", Name: "chat"}

func failure(message string) *notify.Transition {
	r := run("0a1b2c3d4e", v1alpha1.RunFailed, 1, 60)
	r.Digest, r.Revision = "abc", "main@1234567"
	r.Commit = &v1alpha1.RunCommit{Hash: "1234567", Author: "Ann", Subject: "Try again"}
	r.Exit = &v1alpha1.RunExit{Pod: "lammps-0", ExitCode: ptr.To[int32](3), Reason: "Error"}
	r.Message = message
	m := notify.NewMemory(t0)
	found := m.Runs(object("lammps", r), only(v1alpha1.EventRunFailed))
	return &found[0]
}

// The example is that of docs/notifications.md.
func TestWebhook(t *testing.T) {
	body, err := notify.Webhook(failure("BackoffLimitExceeded:\x1b[31m\nJob has failed"), sender, "https://fleet.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"run.failed","timestamp":"2026-01-02T03:05:05Z","data":{"version":"v1alpha1","event":"RunFailed","notification":"physics/chat",` +
		`"kind":"FleetMiniCluster","namespace":"physics","name":"lammps","uid":"uid-lammps","url":"https://fleet.example.org/miniclusters/physics/lammps",` +
		`"revision":"main@1234567","message":"BackoffLimitExceeded:�[31m Job has failed","run":{"id":"0a1b2c3d4e","member":"alpine","state":"Failed","digest":"abc",` +
		`"startTime":"2026-01-02T03:04:06Z","completionTime":"2026-01-02T03:05:05Z","commit":{"hash":"1234567","author":"Ann","subject":"Try again"},"exitCode":3,"exitReason":"Error"}}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
}

// The signature was made with OpenSSL: printf %s ID.TIMESTAMP.BODY | openssl dgst -sha256 -hmac KEY -binary | base64
func TestSign(t *testing.T) {
	got := notify.Sign([]byte("a key that is long enough"), "msg_1", time.Unix(1674087231, 0), []byte(`{"a":1}`))
	if want := "v1,TW7bYBx01qHX/c9xxK73KlcpFGALDRC/57mTkoZKDN0="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKey(t *testing.T) {
	long := strings.Repeat("k", 32)
	for name, tc := range map[string]struct{ text, want, problem string }{
		"as Standard Webhooks has it": {"whsec_" + base64.StdEncoding.EncodeToString([]byte(long)), long, ""},
		"with a line break":           {"whsec_" + base64.StdEncoding.EncodeToString([]byte(long)) + "\n", long, ""},
		"anything else":               {long, long, ""},
		"too short":                   {"short", "", "has to be of 24 to 1024 bytes"},
		"too short, encoded":          {"whsec_c2hvcnQ=", "", "has to be whsec_ and the base64 of 24 to 64 bytes"},
		"no base64":                   {"whsec_" + long + "!", "", "begins with whsec_ and does not go on with base64"},
		"nothing":                     {"", "", "has to be of 24 to 1024 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := notify.Key([]byte(tc.text))
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.problem}, []string{string(got), problem}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAlerts(t *testing.T) {
	type alert struct {
		Labels           map[string]string
		StartsAt, EndsAt time.Time
	}
	read := func(tr *notify.Transition) alert {
		t.Helper()
		body, err := notify.Alerts(tr, "", at(100).Time)
		if err != nil {
			t.Fatal(err)
		}
		var out []alert
		if err := json.Unmarshal(body, &out); err != nil || len(out) != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		return out[0]
	}
	fails := failure("x")
	succeeds := *fails
	succeeds.Event, succeeds.At = v1alpha1.EventRunSucceeded, at(90).Time
	begins, ends := read(fails), read(&succeeds)
	want := map[string]string{"alertname": "MiniFleetRunFailed", "severity": "warning", "namespace": "physics", "kind": "FleetMiniCluster", "name": "lammps", "member": "alpine"}
	if diff := cmp.Diff(want, begins.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(begins.Labels, ends.Labels); diff != "" {
		t.Errorf("what ends it is another one: %s", diff)
	}
	if !begins.EndsAt.Equal(at(100).Add(notify.AlertLasts)) || !ends.EndsAt.Equal(at(90).Time) {
		t.Errorf("ends at %v, %v", begins.EndsAt, ends.EndsAt)
	}
	succeeds.At = at(5000).Time // by a clock that is ahead
	if early := read(&succeeds); early.EndsAt.After(at(100).Time) {
		t.Errorf("ends at %v", early.EndsAt)
	}
	over := notify.Transition{Event: v1alpha1.EventApprovalNeeded, Over: true, Reason: v1alpha1.ReasonPruneBlocked} // its condition is deleted
	if got := read(&over); !got.EndsAt.Equal(at(100).Time) {
		t.Errorf("what is asked no more ends at %v", got.EndsAt)
	}
	got := notify.AlertEvents([]v1alpha1.NotificationEvent{v1alpha1.EventRunFailed})
	if len(got) != 2 || !only(got...)(v1alpha1.EventRunFailed) || !only(got...)(v1alpha1.EventRunSucceeded) {
		t.Errorf("%v", got)
	}
}

func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		of   *notify.Transition
		want string
	}{
		"a run": {failure("no room"), "physics/lammps: run 0a1b2c3d4e has failed on alpine: no room (main\uff201234567) https://fleet.example.org/miniclusters/physics/lammps"},
		"what somebody has put into a message": {
			failure("<!channel> @everyone [click](https://evil.example.org) `x`"),
			"physics/lammps: run 0a1b2c3d4e has failed on alpine: \u2039!channel\u203a \uff20everyone (click)(https:\u2044\u2044evil.example.org) 'x' (main\uff201234567) https://fleet.example.org/miniclusters/physics/lammps",
		},
		"too many": {
			&notify.Transition{Event: notify.EventDropped, Dropped: map[v1alpha1.NotificationEvent]int{v1alpha1.EventRunSucceeded: 10, v1alpha1.EventRunFailed: 2}},
			"physics/chat: 12 more: 2 RunFailed, 10 RunSucceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, notify.Text(tc.of, sender, "https://fleet.example.org")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("<!channel> @here [a](b) \x1b[0m")
	f.Add(strings.Repeat("@", 2000))
	f.Fuzz(func(t *testing.T, text string) {
		got := notify.Plain(text)
		if len(got) > notify.MaxText || !utf8.ValidString(got) || strings.ContainsAny(got, "@<>[]`\n\x1b") || strings.Contains(got, "://") {
			t.Errorf("%q: %q", text, got)
		}
	})
}
