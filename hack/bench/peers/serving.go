package peers

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// serving is an authority and a certificate of it that a program serves webhooks with, as the files of a Secret.
type serving struct {
	files map[string][]byte
}

// newServing makes one for Kueue in a namespace, with the names that Kueue expects of those that it has made itself, and
// for this machine. It reads RSA keys in PKCS #1 alone.
func newServing(namespace string) (*serving, error) {
	const authorityName = "kueue-ca"
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authorityName, Organization: []string{"kueue"}}, DNSNames: []string{authorityName},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	name := "kueue-webhook-service." + namespace + ".svc"
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	authorityKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	serverKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	s := &serving{files: map[string][]byte{}}
	if err := s.add("ca", authority, authority, authorityKey, authorityKey); err != nil {
		return nil, err
	}
	return s, s.add("tls", server, authority, serverKey, authorityKey)
}

func (s *serving) add(name string, template, parent *x509.Certificate, key, parentKey *rsa.PrivateKey) error {
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return err
	}
	s.files[name+".crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	s.files[name+".key"] = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return nil
}

// at is the clientConfig of a webhook at an address of this machine.
func (s *serving) at(address, path string) map[string]any {
	return map[string]any{"url": "https://" + address + path, "caBundle": base64.StdEncoding.EncodeToString(s.files["ca.crt"])}
}

// write puts the files where a Secret would be mounted.
func (s *serving) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range s.files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
