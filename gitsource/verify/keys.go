package verify

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"golang.org/x/crypto/ssh"
)

// Keys are those whose signatures are believed.
type Keys struct {
	openPGP openpgp.EntityList
	ssh     []sshKey
}

type sshKey struct {
	public  ssh.PublicKey
	comment string
}

// KeyError is why a value of a Secret is refused. It never shows the value.
type KeyError struct {
	// Entry is the key of the Secret, empty for the whole of it.
	Entry string
	// Problem says what is wrong, and what to do.
	Problem string
}

func (e *KeyError) Error() string {
	if e.Entry == "" {
		return e.Problem
	}
	return fmt.Sprintf("key %.253q %s", e.Entry, e.Problem)
}

// minRSABits is the shortest RSA key that is believed.
const minRSABits = 2048

// ReadKeys reads the values of a Secret, each of which holds public keys: armored OpenPGP keys, or SSH keys, one to a line
// as in authorized_keys or allowed_signers. What it is shows by the value, whatever its name. Every error is a *KeyError.
func ReadKeys(data map[string][]byte) (*Keys, error) {
	if len(data) == 0 {
		return nil, &KeyError{Problem: "holds no key: put public keys into it, " + wanted}
	}
	out := &Keys{}
	for _, entry := range slices.Sorted(maps.Keys(data)) {
		if err := out.add(string(data[entry])); err != nil {
			return nil, &KeyError{Entry: entry, Problem: err.Error()}
		}
	}
	return out, nil
}

const wanted = "as gpg --export --armor or the file .pub of ssh-keygen has them"

var errPrivate = errors.New("holds a private key: remove it from the Secret, and do not use it any more, since it could be read here; put the public key there, " + wanted)

func (k *Keys) add(value string) error {
	switch {
	case isPrivate(value):
		return errPrivate
	case strings.Contains(value, "-----BEGIN PGP "):
		return k.addOpenPGP(value)
	default:
		return k.addSSH(value)
	}
}

// isPrivate recognizes private keys of all common formats, wherever in the value they are.
func isPrivate(value string) bool {
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "-----BEGIN") && strings.Contains(line, "PRIVATE KEY") ||
			strings.HasPrefix(line, "PuTTY-User-Key-File") || strings.HasPrefix(line, "AGE-SECRET-KEY-") {
			return true
		}
	}
	return false
}

const beginPublic = "-----BEGIN PGP PUBLIC KEY BLOCK-----"

// addOpenPGP reads every block of public keys.
func (k *Keys) addOpenPGP(value string) error {
	_, rest, found := strings.Cut(value, beginPublic)
	if !found {
		return errors.New("holds no OpenPGP public key: put one there as gpg --export --armor has it")
	}
	for found {
		var block string
		block, rest, found = strings.Cut(rest, beginPublic)
		entities, err := readOpenPGP(beginPublic + block)
		if err != nil {
			return err
		}
		k.openPGP = append(k.openPGP, entities...)
	}
	return nil
}

func readOpenPGP(block string) (entities openpgp.EntityList, err error) {
	unreadable := errors.New("holds an OpenPGP key that cannot be read: export it anew with gpg --export --armor")
	defer func() {
		if cause := recover(); cause != nil {
			entities, err = nil, unreadable
		}
	}()
	decoded, err := armor.Decode(strings.NewReader(block))
	if err != nil {
		return nil, unreadable
	}
	entities, err = openpgp.ReadKeyRing(decoded.Body)
	if err != nil || len(entities) == 0 {
		return nil, unreadable
	}
	for _, entity := range entities {
		if entity.PrivateKey != nil {
			return nil, errPrivate
		}
	}
	return entities, nil
}

// addSSH reads lines of public keys.
func (k *Keys) addSSH(value string) error {
	number, found := 0, false
	for line := range strings.Lines(value) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := readSSH(line)
		if err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		k.ssh, found = append(k.ssh, key), true
	}
	if !found {
		return errors.New("holds no public key: put one there " + wanted)
	}
	return nil
}

// sshTypes are the types of SSH keys that are believed.
var sshTypes = map[string]bool{
	ssh.KeyAlgoED25519: true, ssh.KeyAlgoECDSA256: true, ssh.KeyAlgoECDSA384: true, ssh.KeyAlgoECDSA521: true,
	ssh.KeyAlgoRSA: true, ssh.KeyAlgoSKED25519: true, ssh.KeyAlgoSKECDSA256: true,
}

// readSSH reads [PRINCIPALS] [OPTIONS] TYPE BASE64 [COMMENT].
func readSSH(line string) (sshKey, error) {
	fields := splitOutside(line, " \t")
	for i, field := range fields {
		if i > 2 || i+1 == len(fields) {
			break
		}
		if strings.HasPrefix(field, "ssh-dss") || strings.Contains(field, "-cert-v0") {
			return sshKey{}, fmt.Errorf("holds a key of type %.60q, which is not supported: use ssh-ed25519", field)
		}
		if !sshTypes[field] {
			continue
		}
		key, err := readPublic(field, fields[i+1])
		if err != nil {
			return sshKey{}, err
		}
		key.comment = strings.Join(fields[i+2:], " ")
		if i > 0 && key.comment == "" {
			key.comment = fields[0]
		}
		return key, checkOptions(fields[:i])
	}
	return sshKey{}, errors.New("is no public key: put one there " + wanted)
}

// splitOutside splits at characters that are not within quotes.
func splitOutside(text, at string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && strings.ContainsRune(at, r)
	})
}

func readPublic(kind, encoded string) (sshKey, error) {
	unreadable := fmt.Errorf("holds a key of type %s that cannot be read: put it there as the file .pub has it", kind)
	wire, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return sshKey{}, unreadable
	}
	public, err := ssh.ParsePublicKey(wire)
	if err != nil || public.Type() != kind || !bytes.Equal(public.Marshal(), wire) {
		return sshKey{}, unreadable
	}
	if c, ok := public.(ssh.CryptoPublicKey); ok {
		if key, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
			return sshKey{}, fmt.Errorf("holds an RSA key of %d bits, which is too short: use ssh-ed25519, or RSA of %d bits or more", key.N.BitLen(), minRSABits)
		}
	}
	return sshKey{public: public}, nil
}

// checkOptions refuses what would bound a key in a way that is not held here. Names of principals, and namespaces that
// include Git's, change nothing.
func checkOptions(fields []string) error {
	for _, field := range fields {
		for _, option := range splitOutside(field, ",") {
			name, value, has := strings.Cut(option, "=")
			name = strings.ToLower(name)
			if has && name == "namespaces" && slices.Contains(strings.Split(strings.Trim(value, `"`), ","), namespace) {
				continue
			}
			if has || refusedOptions[name] {
				return fmt.Errorf("has the option %.40q, which is not supported: remove the option, or the key", name)
			}
		}
	}
	return nil
}

// refusedOptions are those without a value that are no name of a principal, and would change what is believed.
var refusedOptions = map[string]bool{"cert-authority": true, "verify-required": true, "no-touch-required": true}
