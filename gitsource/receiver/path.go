// Package receiver answers webhooks of forges. What comes in are requests from anywhere, and the hooks of GitSources: their
// paths, tokens and refs; what goes out are the names of the GitSources that are to be reconciled, and nothing else.
//
//	path.go      token + source -> the path of its hook, which is neither guessed nor tells the token
//	signature.go headers + body -> whether whoever sent them knows the token
//	event.go     headers + payload -> what has happened, as far as it is known for certain
//	follow.go    what has happened + the ref of a source -> whether it may concern the source
//	limits.go    how many requests, and how much of them at once
//	hooks.go     the hooks by path
//	server.go    a request -> an answer, and a reconciliation
package receiver

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// pathPrefix is what all paths begin with, as those of Flux CD do.
	pathPrefix = "/hook/"
	// MinTokenBytes is how long a token has to be: who may read the path could try out all that are much shorter.
	MinTokenBytes = 16
)

// errShortToken says why a token is refused.
var errShortToken = fmt.Errorf("has to have at least %d bytes, which nobody can try out", MinTokenBytes)

// pathOf derives the path of a source's hook. It is made of a key of its own, and not of the token's HMAC, by which the forges
// sign: a path that anybody may read who may read the source would be a valid signature then.
func pathOf(token []byte, source types.NamespacedName, uid types.UID) (string, error) {
	if len(token) < MinTokenBytes {
		return "", errShortToken
	}
	key, err := hkdf.Key(sha256.New, token, []byte("minifleet.dev/webhook-path"), source.String()+"/"+string(uid), sha256.Size)
	if err != nil {
		return "", errors.Join(errors.New("the path cannot be derived"), err)
	}
	return pathPrefix + hex.EncodeToString(key), nil
}
