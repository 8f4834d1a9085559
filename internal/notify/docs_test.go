package notify_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/internal/notify"
)

// block is the only one of a language in docs/notifications.md that has this text.
func block(t *testing.T, language, with string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		if strings.Contains(m[1], with) {
			out = append(out, m[1])
		}
	}
	if len(out) != 1 {
		t.Fatalf("%d blocks of %s have %q", len(out), language, with)
	}
	return out[0]
}

// The example in docs/notifications.md has no field that is not sent, and all that are.
func TestDocumentedBody(t *testing.T) {
	decoder := json.NewDecoder(strings.NewReader(block(t, "json", "run.failed")))
	decoder.DisallowUnknownFields()
	var body notify.Body
	if err := decoder.Decode(&body); err != nil {
		t.Fatal(err)
	}
	seldom := map[string]bool{"Reason": true, "Dropped": true, "Attempt": true, "Stop": true}
	for _, v := range []reflect.Value{reflect.ValueOf(body.Data), reflect.ValueOf(*body.Data.Run)} {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() != seldom[name] {
				t.Errorf("field %s: is it in the example?", name)
			}
		}
	}
}

// What docs/notifications.md tells receivers to do takes what is signed here, and nothing else.
func TestDocumentedVerification(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: the code for receivers in docs/notifications.md, for there is no python3")
	}
	body := []byte(`{"type":"run.failed"}`)
	for _, secret := range []string{"whsec_a2V5IGtleSBrZXkga2V5IGtleSBrZXkga2V5IGtleQ==", "a key that is long enough"} {
		key, err := notify.Key([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		signature := notify.Sign(key, "msg_1", t0, body)
		script := block(t, "python", "def verify") + `
import json, sys
a = json.load(sys.stdin)
h = {"webhook-id": "msg_1", "webhook-timestamp": a["at"], "webhook-signature": a["signature"]}
n, body = int(a["at"]), a["body"].encode()
print(verify(a["secret"], h, body, n), verify(a["secret"], h, body + b" ", n), verify(a["secret"], dict(h, **{"webhook-id": "msg_2"}), body, n), verify(a["secret"], h, body, n + 301))
`
		in, err := json.Marshal(map[string]string{"secret": secret, "at": notify.Timestamp(t0), "body": string(body), "signature": signature})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "-c", script)
		cmd.Stdin = strings.NewReader(string(in))
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "True False False False" {
			t.Errorf("%.6s…: %v: %s", secret, err, got)
		}
	}
}
