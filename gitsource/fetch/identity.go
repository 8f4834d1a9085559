package fetch

import (
	"bytes"
	"crypto/dsa" //nolint:staticcheck // to refuse it
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

const (
	// minRSABits is the shortest RSA key that is used.
	minRSABits = 2048
	// maxKDFRounds bounds what it costs to decrypt a private key, which is done for each fetch: ssh-keygen's default is 24.
	maxKDFRounds = 256
)

// rsaAlgorithms omit signatures with SHA-1.
var rsaAlgorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

// parseIdentity reads a private key. Its errors repeat nothing of it.
func parseIdentity(identity []byte, passphrase string) (ssh.Signer, error) {
	identity = bytes.TrimSpace(identity)
	if problem := identityProblem(identity); problem != "" {
		return nil, identityInvalid(problem)
	}
	raw, err := ssh.ParseRawPrivateKey(identity)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		if passphrase == "" {
			return nil, identityInvalid("is encrypted; add its passphrase under the key password")
		}
		if raw, err = ssh.ParseRawPrivateKeyWithPassphrase(identity, []byte(passphrase)); err != nil {
			return nil, identityInvalid("cannot be decrypted with the passphrase under the key password; correct that")
		}
	}
	if err != nil {
		return nil, identityInvalid("cannot be read; put there the private key as ssh-keygen has made it, with its first and last line")
	}
	return signerOf(raw)
}

func identityInvalid(problem string) *Error {
	return secretInvalid("the private key in identity " + problem)
}

// identityProblem recognizes what people put there by mistake, and what would take too long.
func identityProblem(identity []byte) string {
	block, _ := pem.Decode(identity)
	switch {
	case bytes.HasPrefix(identity, []byte("PuTTY-User-Key-File")):
		return "is in PuTTY's format; convert it: puttygen KEY -O private-openssh -o identity"
	case bytes.HasPrefix(identity, []byte("ssh-")), bytes.HasPrefix(identity, []byte("ecdsa-")), bytes.HasPrefix(identity, []byte("sk-")):
		return "is a public key; put the private one there, which is the file without .pub"
	case block == nil:
		return "is in no format of OpenSSH or PEM; put there the private key as ssh-keygen has made it, with its first and last line"
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return "is encrypted as PKCS #8, which is not supported; convert it: ssh-keygen -p -f KEY"
	case block.Type == "OPENSSH PRIVATE KEY" && kdfRounds(block.Bytes) > maxKDFRounds:
		return fmt.Sprintf("takes more than %d rounds to decrypt; encrypt it anew: ssh-keygen -p -a 24 -f KEY", maxKDFRounds)
	}
	return ""
}

// kdfRounds is how long it takes to derive a key from the passphrase of one in the format of OpenSSH; 0 where it has none.
func kdfRounds(data []byte) uint32 {
	const magic = "openssh-key-v1\x00"
	var head struct {
		Cipher, KDF, Options string
		Rest                 []byte `ssh:"rest"`
	}
	var options struct {
		Salt   string
		Rounds uint32
	}
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || ssh.Unmarshal(rest, &head) != nil || ssh.Unmarshal([]byte(head.Options), &options) != nil {
		return 0 // whatever it is, it is not decrypted
	}
	return options.Rounds
}

func signerOf(raw any) (ssh.Signer, error) {
	switch key := raw.(type) {
	case *dsa.PrivateKey:
		return nil, identityInvalid("is a DSA key, which is too weak; make another one: ssh-keygen -t ed25519")
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return nil, identityInvalid(fmt.Sprintf("is an RSA key of %d bits, which is too weak; make another one: ssh-keygen -t ed25519", bits))
		}
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, identityInvalid("is of a type that is not supported; make another one: ssh-keygen -t ed25519")
	}
	if algorithms, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		return ssh.NewSignerWithAlgorithms(algorithms, rsaAlgorithms)
	}
	return signer, nil
}
