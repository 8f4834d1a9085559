package receiver

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// FuzzSignature has nobody believed who does not send the HMAC of the body, or the token.
func FuzzSignature(f *testing.F) {
	const body = "{}"
	for _, value := range []string{"", "sha256=", "sha256=00", "sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709", "sha512=" + strings.Repeat("ab", 64), testToken, "=", "sha256=" + strings.Repeat("AB", 32)} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for sender, headers := range signed {
			for _, s := range headers {
				header := http.Header{}
				header.Set(s.name, value)
				mac := hmac.New(algorithmOf(header), []byte(testToken))
				_, _ = mac.Write([]byte(body))
				sum := mac.Sum(nil)
				_, digits, _ := strings.Cut("="+value, "=")
				if _, after, ok := strings.Cut(digits, "="); ok {
					digits = after
				}
				sent, _ := hex.DecodeString(digits)
				if refusal(sender, []byte(testToken), header, sum) == "" && !bytes.Equal(sent, sum) {
					t.Errorf("%s: %s: %q is believed", sender, s.name, value)
				}
			}
		}
		header := http.Header{headerGitLab: {value}}
		if refusal(v1alpha1.ReceiverGitLab, []byte(testToken), header, nil) == "" && value != testToken {
			t.Errorf("%q is believed", value)
		}
	})
}
