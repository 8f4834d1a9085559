package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// namespace is what Git signs in. A signature of a file, which people are asked for as well, is made in another.
const namespace = "git"

// checkSSH verifies a signature in the format of OpenSSH (SSHSIG).
func (k *Keys) checkSSH(payload []byte, armored string) (signer Signer, err error) {
	defer recovered(&err)
	data, err := dearmor(armored, sshsig.PEMType, false)
	if err != nil {
		return Signer{}, err
	}
	sig, err := sshsig.ParseSignature(data)
	if err != nil {
		return Signer{}, fmt.Errorf("its SSH signature cannot be read: %w", err)
	}
	used := ssh.FingerprintSHA256(sig.PublicKey)
	switch {
	case strings.Contains(sig.PublicKey.Type(), "-cert-"):
		return Signer{}, errors.New("its SSH signature is made with a certificate, which is not supported: sign with the key itself")
	case sig.Namespace != namespace:
		return Signer{}, fmt.Errorf("its SSH signature is made in namespace %.40q, and Git signs in %q", sig.Namespace, namespace)
	}
	for _, key := range k.ssh {
		if !bytes.Equal(key.public.Marshal(), sig.PublicKey.Marshal()) {
			continue
		}
		if err := sshsig.Verify(bytes.NewReader(payload), sig, key.public, sig.HashAlgorithm, namespace); err != nil {
			return Signer{}, fmt.Errorf("it is not signed by SSH key %s of the Secret as it has to be: %w", used, err)
		}
		return Signer{key.public.Type(), used, key.comment}, nil
	}
	return Signer{}, fmt.Errorf("it is signed by SSH key %s, which is none of those in the Secret", used)
}
