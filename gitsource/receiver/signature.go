package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"net/http"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Headers by which a forge shows that it knows the token.
const (
	headerGitLab  = "X-Gitlab-Token"
	headerGeneric = "X-Signature"
)

// signed are the headers that hold the HMAC of the body, by forge. Those that are there all have to be right, and one has
// to be there. SHA-1 is not enough.
var signed = map[v1alpha1.ReceiverType][]signature{
	v1alpha1.ReceiverGitHub:    {hub256},
	v1alpha1.ReceiverGitea:     {{"X-Gitea-Signature", true}, hub256},
	v1alpha1.ReceiverForgejo:   {{"X-Forgejo-Signature", true}, {"X-Gitea-Signature", true}, hub256},
	v1alpha1.ReceiverBitbucket: {{"X-Hub-Signature", false}},
	v1alpha1.ReceiverGeneric:   {{headerGeneric, false}},
}

// signature is a header: ALGORITHM=HEX, or HEX alone.
type signature struct {
	name string
	bare bool
}

var hub256 = signature{"X-Hub-Signature-256", false}

// algorithms are those of signatures that say theirs, as in sha256=HEX.
var algorithms = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// algorithmOf is the algorithm that the headers of a request name. It does not depend on the hook, so that requests take as
// long for a path that is not there.
func algorithmOf(header http.Header) func() hash.Hash {
	name, _, _ := strings.Cut(header.Get(headerGeneric), "=")
	if algorithm := algorithms[name]; algorithm != nil {
		return algorithm
	}
	return sha256.New
}

// refusal says why a request is not believed; it is empty for one that is. The sum is the HMAC of the body with the token, by the
// algorithm that the headers name.
func refusal(kind v1alpha1.ReceiverType, token []byte, header http.Header, sum []byte) string {
	if kind == v1alpha1.ReceiverGitLab {
		return refusalOfToken(token, header.Values(headerGitLab))
	}
	if len(signed[kind]) == 0 {
		return "receivers of type " + string(kind) + " are not known"
	}
	found := false
	for _, s := range signed[kind] {
		values := header.Values(s.name)
		switch {
		case len(values) == 0:
			continue
		case len(values) > 1:
			return "several headers " + s.name
		}
		sent, ok := s.read(values[0])
		if !ok {
			return "header " + s.name + " is not " + s.format()
		}
		if !hmac.Equal(sent, sum) {
			return "header " + s.name + " is not the signature of the body with this token"
		}
		found = true
	}
	if !found {
		return "no header " + signed[kind][0].name
	}
	return ""
}

func (s signature) format() string {
	if s.bare {
		return "a signature by SHA-256 in hexadecimal digits"
	}
	return "a signature by SHA-256 or longer, sha256=HEX"
}

// refusalOfToken compares in a time that does not tell how much of the token is right, nor how long it is.
func refusalOfToken(token []byte, values []string) string {
	if len(values) != 1 {
		return "not one header " + headerGitLab
	}
	sent, want := sha256.Sum256([]byte(values[0])), sha256.Sum256(token)
	if !hmac.Equal(sent[:], want[:]) {
		return "header " + headerGitLab + " is not this token"
	}
	return ""
}

// read returns the sum that a header holds.
func (s signature) read(value string) ([]byte, bool) {
	digits := value
	if !s.bare {
		name, rest, ok := strings.Cut(value, "=")
		if !ok || algorithms[name] == nil {
			return nil, false
		}
		digits = rest
	}
	sum, err := hex.DecodeString(digits)
	return sum, err == nil
}
