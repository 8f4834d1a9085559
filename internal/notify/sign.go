package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Headers of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const (
	keyPrefix = "whsec_"
	// minKey and maxKey are the lengths in bytes of keys of Standard Webhooks.
	minKey, maxKey = 24, 64
	// maxPlainKey bounds a key that is not one of these.
	maxPlainKey = 1024
)

// Key reads the key of a Secret: whsec_ and base64, as Standard Webhooks has it, or anything else as it is. An error says
// what is wrong without any of it.
func Key(text []byte) ([]byte, error) {
	encoded, standard := strings.CutPrefix(strings.TrimSpace(string(text)), keyPrefix)
	if !standard {
		if len(text) < minKey || len(text) > maxPlainKey {
			return nil, errors.New("has to be of 24 to 1024 bytes")
		}
		return text, nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("begins with whsec_ and does not go on with base64")
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, errors.New("has to be whsec_ and the base64 of 24 to 64 bytes")
	}
	return key, nil
}

// Timestamp is how HeaderTimestamp has a time: seconds since 1970.
func Timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// Sign is HeaderSignature of a message: HMAC-SHA-256 over ID.TIMESTAMP.BODY.
func Sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + Timestamp(at) + ".")) // it never fails
	_, _ = mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
