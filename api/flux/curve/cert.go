// Package curve makes and checks the CURVE certificate that Flux brokers know each other by.
//
// All brokers of a MiniCluster share one certificate: a Curve25519 key pair (ZeroMQ RFC 26) in Z85 text
// (RFC 32), in the zcert file format, which is a small part of ZPL (RFC 4): sections at the start of a
// line, indented `key = "value"` lines below them. `flux keygen` writes the same.
package curve

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// KeySize is the length of either key, in bytes.
const KeySize = 32

// Cert is a certificate: a key pair and the name that Flux shows for it. It prints as its name and
// public key only.
type Cert struct {
	// Name is the metadata entry "name". A broker that has peers needs one, whatever it is. It is of
	// letters, digits and the characters that Kubernetes names may have. Empty: no entry.
	Name string

	public, secret [KeySize]byte
}

// New makes a certificate of 32 bytes of random, which must be of cryptographic quality.
func New(random io.Reader) (Cert, error) {
	var c Cert
	if _, err := io.ReadFull(random, c.secret[:]); err != nil {
		return Cert{}, fmt.Errorf("read randomness for a CURVE key: %w", err)
	}
	public, err := publicOf(c.secret)
	if err != nil {
		return Cert{}, err
	}
	c.public = public
	return c, nil
}

// PublicKey is the public key in Z85, 40 characters.
func (c Cert) PublicKey() string {
	return mustEncode(c.public)
}

// String names the certificate without its secret.
func (c Cert) String() string {
	return fmt.Sprintf("CURVE certificate %q, public key %s", c.Name, c.PublicKey())
}

// GoString is String, so that %#v shows no secret either.
func (c Cert) GoString() string {
	return c.String()
}

// Encode writes the certificate as a zcert file. The same certificate always gives the same bytes.
func (c Cert) Encode() []byte {
	var out bytes.Buffer
	out.WriteString("#  ZeroMQ CURVE **Secret** Certificate\n#  DO NOT DISTRIBUTE\n\nmetadata\n")
	if c.Name != "" {
		fmt.Fprintf(&out, "    name = \"%s\"\n", unsafeName.ReplaceAllString(c.Name, "-"))
	}
	fmt.Fprintf(&out, "curve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n", mustEncode(c.public), mustEncode(c.secret))
	return out.Bytes()
}

// unsafeName is what Flux's reader does not accept in a value.
var unsafeName = regexp.MustCompile(`[^A-Za-z0-9.:/ -]`)

// Parse reads a zcert file and checks that both keys are there and belong together. Metadata other than
// the name is dropped. No error quotes a key.
func Parse(file []byte) (Cert, error) {
	var c Cert
	set := map[string]bool{}
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(file))
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		text := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case !indented && (text == "metadata" || text == "curve"):
			section = text
		case !indented || section == "":
			return Cert{}, fmt.Errorf("CURVE certificate: line %d is of no known section", number)
		default:
			key, err := c.setEntry(section, text)
			if err != nil {
				return Cert{}, fmt.Errorf("CURVE certificate: line %d: %w", number, err)
			}
			set[key] = true
		}
	}
	if err := lines.Err(); err != nil {
		return Cert{}, fmt.Errorf("CURVE certificate: %w", err)
	}
	if !set[publicEntry] || !set[secretEntry] {
		return Cert{}, errors.New("CURVE certificate: public-key and secret-key must both be there")
	}
	if err := c.check(); err != nil {
		return Cert{}, err
	}
	return c, nil
}

// Entries of a certificate, as SECTION/KEY.
const (
	nameEntry   = "metadata/name"
	publicEntry = "curve/public-key"
	secretEntry = "curve/secret-key"
)

// setEntry takes over a line of a section, and returns which entry it is.
func (c *Cert) setEntry(section, text string) (entry string, err error) {
	key, value, err := keyValue(text)
	if err != nil {
		return "", err
	}
	entry = section + "/" + key
	switch entry {
	case nameEntry:
		c.Name = value
	case publicEntry:
		c.public, err = decodeKey(value)
	case secretEntry:
		c.secret, err = decodeKey(value)
	default:
		if section == "curve" {
			err = errors.New("unknown key in the section curve")
		}
	}
	return entry, err
}

func (c Cert) check() error {
	want, err := publicOf(c.secret)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(want[:], c.public[:]) != 1 {
		return errors.New("CURVE certificate: the public key is not that of the secret key")
	}
	return nil
}

func keyValue(text string) (key, value string, err error) {
	key, value, found := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !found || key == "" || len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return "", "", errors.New(`want key = "value"`)
	}
	return key, value[1 : len(value)-1], nil
}

func decodeKey(text string) (key [KeySize]byte, err error) {
	data, err := z85Decode(text)
	if err != nil {
		return key, err
	}
	if copy(key[:], data) != KeySize || len(data) != KeySize {
		return key, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(data))
	}
	return key, nil
}

// publicOf is the X25519 public key of a secret key (RFC 7748), which ZeroMQ's key pairs are.
func publicOf(secret [KeySize]byte) (public [KeySize]byte, err error) {
	key, err := ecdh.X25519().NewPrivateKey(secret[:])
	if err != nil {
		return public, fmt.Errorf("CURVE secret key: %w", err)
	}
	copy(public[:], key.PublicKey().Bytes())
	return public, nil
}

// mustEncode cannot fail: 32 is a multiple of 4.
func mustEncode(key [KeySize]byte) string {
	text, err := z85Encode(key[:])
	if err != nil {
		panic(err)
	}
	return text
}
