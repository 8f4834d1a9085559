package verify

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// maxSkew is by how much the clock of whoever signs may be ahead.
const maxSkew = 5 * time.Minute

const typeOpenPGP = "openpgp"

// config bounds what is accepted at a time: no DSA, no RSA below 2048 bits, no MD5, no SHA-1 of what is signed.
func config(at time.Time) *packet.Config {
	return &packet.Config{
		Time: func() time.Time { return at }, MinRSABits: 2048,
		RejectMessageHashAlgorithms: map[crypto.Hash]bool{crypto.SHA1: true, crypto.MD5: true, crypto.RIPEMD160: true, crypto.SHA224: true},
	}
}

// checkOpenPGP verifies a detached signature.
func (k *Keys) checkOpenPGP(payload []byte, armored string, now time.Time) (Signer, error) {
	data, err := dearmor(armored, "PGP SIGNATURE", true)
	if err != nil {
		return Signer{}, err
	}
	sig, err := onlySignature(data)
	if err != nil {
		return Signer{}, err
	}
	if now, err = checkTime(sig, now); err != nil {
		return Signer{}, err
	}
	candidates := k.withID(*sig.IssuerKeyId)
	if len(candidates) == 0 {
		return Signer{}, fmt.Errorf("it is signed by OpenPGP key %s, which is none of those in the Secret", issuer(sig))
	}
	signer, err := checkEntities(candidates, sig, payload, data, now)
	if err != nil {
		return Signer{}, fmt.Errorf("it is not signed by OpenPGP key %s of the Secret as it has to be: %s", fingerprint(candidates[0]), reason(err))
	}
	return signer, nil
}

// withID are the keys that have an ID, or a subkey that has.
func (k *Keys) withID(id uint64) openpgp.EntityList {
	var out openpgp.EntityList
	for _, entity := range k.openPGP {
		if len(openpgp.EntityList{entity}.EntitiesById(id)) > 0 {
			out = append(out, entity)
		}
	}
	return out
}

// checkEntities verifies with what may be several copies of a key. One that was extended is enough, and one that was revoked
// too much.
func checkEntities(copies openpgp.EntityList, sig *packet.Signature, payload, data []byte, now time.Time) (signer Signer, err error) {
	for _, entity := range copies {
		if revoked(entity, *sig.IssuerKeyId, now) {
			return Signer{}, pgperrors.ErrKeyRevoked
		}
	}
	for _, entity := range copies {
		if err = checkEntity(entity, sig, payload, data, now); err == nil {
			return Signer{typeOpenPGP, fingerprint(entity), userOf(entity, now)}, nil
		}
	}
	return Signer{}, err
}

// revoked says whether a key or its subkey was revoked, for whatever reason and at whatever time.
func revoked(entity *openpgp.Entity, id uint64, now time.Time) bool {
	return entity.Revoked(now) || slices.ContainsFunc(entity.Subkeys, func(s openpgp.Subkey) bool {
		return s.PublicKey.KeyId == id && s.Revoked(nil, now)
	})
}

// onlySignature reads the one packet that a signature has to be. Of several, people could be shown another than was
// verified. A signature of text is none of bytes: it holds for other line ends as well.
func onlySignature(data []byte) (sig *packet.Signature, err error) {
	defer recovered(&err)
	packets := packet.NewOpaqueReader(bytes.NewReader(data))
	only, err := packets.Next()
	if err != nil {
		return nil, errors.New("its OpenPGP signature cannot be read")
	}
	if _, err := packets.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it bears several OpenPGP signatures; sign it with one key")
	}
	p, err := only.Parse()
	sig, ok := p.(*packet.Signature)
	switch {
	case err != nil || !ok:
		return nil, errors.New("its OpenPGP signature cannot be read")
	case sig.SigType != packet.SigTypeBinary:
		return nil, errors.New("its OpenPGP signature is not one of bytes (type 0x00), as Git makes them")
	case !hashes[sig.Hash]:
		return nil, fmt.Errorf("its OpenPGP signature is made with %s, which is too weak: sign with SHA-256 or better", sig.Hash)
	case sig.IssuerKeyId == nil:
		return nil, errors.New("its OpenPGP signature does not say by which key it is made")
	}
	return sig, nil
}

// checkTime returns the time at which keys have to be valid: now, or that of a signature of which the clock was ahead.
func checkTime(sig *packet.Signature, now time.Time) (time.Time, error) {
	made := sig.CreationTime
	switch {
	case made.After(now.Add(maxSkew)):
		return now, fmt.Errorf("its OpenPGP signature is made in the future, at %s: compare the clocks", made.UTC().Format(time.RFC3339))
	case made.After(now):
		now = made
	}
	if sig.SigExpired(now) {
		return now, errors.New("its OpenPGP signature has expired")
	}
	return now, nil
}

// checkEntity verifies the signature with one key, which has to be valid when it was made and now, as Git has it: a key that
// has expired or was revoked signs nothing that is believed, whenever it says that it did.
func checkEntity(entity *openpgp.Entity, sig *packet.Signature, payload, data []byte, now time.Time) (err error) {
	defer recovered(&err)
	if _, _, err := openpgp.VerifyDetachedSignature(openpgp.EntityList{entity}, bytes.NewReader(payload), bytes.NewReader(data), config(now)); err != nil {
		return err
	}
	if _, err := entity.VerifyPrimaryKey(now, config(now)); err != nil {
		return err
	}
	if entity.PrimaryKey.KeyId == *sig.IssuerKeyId {
		return nil
	}
	for i := range entity.Subkeys {
		if entity.Subkeys[i].PublicKey.KeyId == *sig.IssuerKeyId {
			if _, err := entity.Subkeys[i].Verify(now, config(now)); err != nil {
				return err
			}
		}
	}
	return nil
}

// recovered turns a panic of a parser into an error: what it parses comes from whoever may push.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = errors.New("its signature cannot be read")
	}
}

// reason is what is wrong, for people.
func reason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{pgperrors.ErrKeyExpired, "the key has expired; put it into the Secret again once it was extended"},
		{pgperrors.ErrKeyRevoked, "the key was revoked"},
		{pgperrors.ErrSignatureExpired, "the signature, or that of the key on itself, has expired"},
		{pgperrors.ErrSignatureOlderThanKey, "the signature is older than the key"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	if invalid := pgperrors.SignatureError(""); errors.As(err, &invalid) && strings.Contains(string(invalid), "verification fail") {
		return "the signature is not of this content"
	}
	return err.Error()
}

func issuer(sig *packet.Signature) string {
	if len(sig.IssuerFingerprint) > 0 {
		return fmt.Sprintf("%X", sig.IssuerFingerprint)
	}
	return fmt.Sprintf("%016X", *sig.IssuerKeyId)
}

func fingerprint(entity *openpgp.Entity) string {
	return fmt.Sprintf("%X", entity.PrimaryKey.Fingerprint)
}

// userOf is the primary user ID.
func userOf(entity *openpgp.Entity, now time.Time) string {
	if _, id := entity.PrimaryIdentity(now, config(now)); id != nil {
		return id.Name
	}
	return ""
}
