package chat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/internal/notify/chat"
)

const canary = "canary0123456789abcdefgh"

func TestNew(t *testing.T) {
	for name, tc := range map[string]struct {
		address, url string
		field        string // of the body that has the text; empty: the body is the text
		header       map[string]string
	}{
		"Slack": {
			address: "slack://hook:T12345678-B12345678-" + canary + "@webhook",
			url:     "https://hooks.slack.com/services/T12345678/B12345678/" + canary, field: "attachments",
		},
		"Discord":     {address: "discord://" + canary + "@1234567", url: "https://discord.com/api/webhooks/1234567/" + canary, field: "content"},
		"Mattermost":  {address: "mattermost://mm.example.org/" + canary, url: "https://mm.example.org/hooks/" + canary, field: "text"},
		"Rocket.Chat": {address: "rocketchat://rc.example.org/aa/" + canary, url: "https://rc.example.org/hooks/aa/" + canary, field: "text"},
		"Gotify":      {address: "gotify://gotify.example.org/Aabcdefghijklmn?useheader=yes", url: "https://gotify.example.org/message", field: "message", header: map[string]string{"X-Gotify-Key": "Aabcdefghijklmn"}},
		"ntfy":        {address: "ntfy://user:" + canary + "@ntfy.example.org/jobs", url: "https://ntfy.example.org/jobs"},
		"Google Chat": {
			address: "googlechat://chat.googleapis.com/v1/spaces/a/messages?key=k&token=" + canary,
			url:     "https://chat.googleapis.com/v1/spaces/a/messages?key=k&token=" + canary, field: "text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chat.New(tc.address, "a run has failed")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.url, got.URL.String()); diff != "" {
				t.Errorf("URL (-want +got):\n%s", diff)
			}
			for name, value := range tc.header {
				if got.Header.Get(name) != value {
					t.Errorf("header %s is %q", name, got.Header.Get(name))
				}
			}
			said := string(got.Body)
			if tc.field != "" {
				var body map[string]json.RawMessage
				if err := json.Unmarshal(got.Body, &body); err != nil {
					t.Fatalf("%v: %s", err, got.Body)
				}
				said = string(body[tc.field])
			}
			if !strings.Contains(said, "a run has failed") {
				t.Errorf("body: %s", got.Body)
			}
		})
	}
}

// What is wrong is said without anything of the address.
func TestNewRefuses(t *testing.T) {
	for address, want := range map[string]string{
		"":                                     "is no address of a chat",
		canary:                                 "is no address of a chat",
		"https://hooks.slack.com/" + canary:    "is of no chat that is known",
		"smtp://user:" + canary + "@x/?to=a@b": "is one of smtp, which is not supported here",
		"generic+http://169.254.169.254/" + canary:                "is one of generic, which is not supported here",
		"telegram://" + canary + "@telegram?chats=1":              "is one of telegram, which is not supported here",
		"teams://" + canary:                                       "is one of teams, which is not supported here",
		"slack://xoxb:T12345678-B12345678-" + canary + "@channel": "is no valid address of slack",
		"slack://" + canary:                                       "is no valid address of slack",
		"discord://" + canary:                                     "is no valid address of discord",
		"mattermost://":                                           "is no valid address of mattermost",
		"gotify://host/" + canary:                                 "is no valid address of gotify",
		"ntfy:///" + strings.Repeat(canary, 1000):                 "is no address of a chat",
	} {
		got, err := chat.New(address, "x")
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: got %v, %v; want %s", address, got, err, want)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%.40s: shows it: %v", address, err)
		}
	}
}

// No service has a connection, also where its address would be this machine's.
func TestNewConnectsToNothing(t *testing.T) {
	before := http.DefaultTransport
	http.DefaultTransport = refusing{t}
	defer func() { http.DefaultTransport = before }()
	for _, address := range []string{
		"mattermost://127.0.0.1:1/token?disabletls=yes", "rocketchat://127.0.0.1:1/a/b", "ntfy://127.0.0.1:1/a?scheme=http",
		"gotify://127.0.0.1:1/Aabcdefghijklmn?disabletls=yes", "discord://token@1234567", "googlechat://127.0.0.1:1/a",
	} {
		if got, err := chat.New(address, "x"); err != nil || !strings.HasPrefix(got.URL.Host, "127.0.0.1") && got.URL.Host != "discord.com" {
			t.Errorf("%s: %v", address, err)
		}
	}
}

type refusing struct{ t *testing.T }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("connects to %s", req.URL)
	return nil, http.ErrAbortHandler
}

func FuzzNew(f *testing.F) {
	for _, address := range []string{
		"slack://hook:T12345678-B12345678-" + canary + "@webhook", "discord://a@1", "ntfy://u:p@h/t?tags=a,b&delay=1&priority=max", "gotify://h/Aabcdefghijklmn?extras={}",
		"mattermost://u@h:1/t/c?icon=x", "rocketchat://u@h/a/b/c", "googlechat://h/p?key=&token=", "generic://x", "slack://%zz", "discord://%",
	} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		got, err := chat.New(address, "text")
		if err == nil && (got.URL.Hostname() == "" || len(got.Body) == 0) {
			t.Errorf("%q: %+v", address, got)
		}
		if err != nil && len(address) > 20 && strings.Contains(err.Error(), address) {
			t.Errorf("%q: %v", address, err)
		}
	})
}
