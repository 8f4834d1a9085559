package fetch

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
)

// Auth holds credentials and trust. It never prints its secrets: see String, GoString, MarshalJSON.
type Auth struct {
	// Username and Password are for HTTPS.
	Username, Password string
	// BearerToken is sent as "Authorization: Bearer"; it excludes Username and Password.
	BearerToken string
	// CABundle holds PEM certificates that are trusted in addition to the system's.
	CABundle []byte
	// ClientCert and ClientKey are the client's certificate and private key for HTTPS, in PEM.
	ClientCert, ClientKey []byte
	// Identity is a private key for SSH, in the format of OpenSSH or in PEM, and Passphrase decrypts it.
	Identity   []byte
	Passphrase string
	// KnownHosts are the host keys of SSH servers, as in OpenSSH's known_hosts.
	KnownHosts []byte
	// Proxy is asked in the place of Fetcher.Proxy; nil for none.
	Proxy *Proxy
}

const redacted = "[redacted]"

// String says which kinds of credentials are there, and none of their values.
func (a Auth) String() string {
	var kinds []string
	for _, kind := range []struct {
		name string
		has  bool
	}{
		{"bearer token", a.BearerToken != ""},
		{"username and password", a.BearerToken == "" && a.hasCredentials()},
		{"client certificate", a.hasClientCert()},
		{"private key", len(a.Identity) > 0},
		{"proxy", a.Proxy != nil},
	} {
		if kind.has {
			kinds = append(kinds, kind.name+" "+redacted)
		}
	}
	if len(kinds) == 0 {
		return "no credentials"
	}
	return strings.Join(kinds, ", ")
}

// GoString is String, so that %#v prints no secret either.
func (a Auth) GoString() string { return "fetch.Auth{" + a.String() + "}" }

// MarshalJSON writes String as a JSON string.
func (a Auth) MarshalJSON() ([]byte, error) { return []byte(`"` + a.String() + `"`), nil }

// MarshalText is String, for encoders and loggers that prefer text.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// hasCredentials says whether HTTP sends something that is secret.
func (a *Auth) hasCredentials() bool {
	return a != nil && (a.Username != "" || a.Password != "" || a.BearerToken != "")
}

func (a *Auth) hasClientCert() bool {
	return a != nil && (len(a.ClientCert) > 0 || len(a.ClientKey) > 0)
}

func (a *Auth) proxy() *Proxy {
	if a == nil {
		return nil
	}
	return a.Proxy
}

// digest tells credentials apart: two are the same only where all of them is.
func (a *Auth) digest() (sum [sha256.Size]byte) {
	if a == nil {
		a = &Auth{}
	}
	proxy, has := Proxy{}, "no proxy"
	if a.Proxy != nil {
		proxy, has = *a.Proxy, "proxy"
	}
	h := sha256.New()
	for _, part := range []string{
		a.Username, a.Password, a.BearerToken, string(a.CABundle), string(a.ClientCert), string(a.ClientKey),
		string(a.Identity), a.Passphrase, string(a.KnownHosts), has, proxy.Address, proxy.Username, proxy.Password,
	} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash does not fail
		_, _ = h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// tlsConfig has the authorities that are trusted, and the client's certificate. Text of errors about a key is not repeated.
func (a *Auth) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a == nil {
		return config, nil
	}
	if a.hasClientCert() {
		pair, err := tls.X509KeyPair(a.ClientCert, a.ClientKey)
		if err != nil {
			return nil, secretInvalid("tls.crt and tls.key are not a PEM certificate and its unencrypted PEM private key; put both of the same pair there")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if len(a.CABundle) == 0 {
		return config, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // a machine without system roots still trusts the bundle
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(a.CABundle) {
		return nil, secretInvalid("ca.crt holds no PEM certificate; put that of the server's authority there")
	}
	config.RootCAs = roots
	return config, nil
}

// secretInvalid is the failure of credentials that cannot be used.
func secretInvalid(problem string) *Error {
	return fail(ReasonSecretInvalid, "the Secret that spec.secretRef names cannot be used: "+problem)
}

// checkAuth says what is wrong with credentials for a URL, as far as no server is needed for that.
func checkAuth(auth *Auth, u *url.URL) error {
	if failure := checkProxy(auth); failure != nil {
		return failure
	}
	if u.Scheme == schemeSSH {
		return checkSSHAuth(auth)
	}
	if auth == nil {
		return nil
	}
	if auth.BearerToken != "" && (auth.Username != "" || auth.Password != "") {
		return secretInvalid("it holds a bearer token and a password; keep one")
	}
	if strings.ContainsAny(auth.BearerToken, "\r\n\x00") || strings.ContainsAny(auth.Username, ":\r\n\x00") {
		return secretInvalid("the credentials hold a character that HTTP cannot carry, such as a line end; write them without (printf, not echo)")
	}
	return nil
}

func checkSSHAuth(auth *Auth) error {
	const keys = "SSH needs a private key (identity) and the server's host keys (known_hosts, as ssh-keyscan HOST prints them)"
	switch {
	case auth == nil || len(auth.Identity) == 0 && len(auth.KnownHosts) == 0 && !auth.hasCredentials() && auth.Passphrase == "":
		return secretInvalid(keys + ", and there are none; name a Secret with both in spec.secretRef")
	case len(auth.Identity) == 0:
		return secretInvalid("there is no private key in identity, and SSH with a password is not supported; make a key with ssh-keygen -t ed25519, and add its public key to the server")
	case len(auth.KnownHosts) == 0:
		return secretInvalid("there are no host keys in known_hosts, without which any server could say that it is this one; put there what ssh-keyscan HOST prints, once its fingerprints are checked")
	}
	return nil
}

// secrets are the values that nothing may repeat, in every form in which they travel.
func (a *Auth) secrets() []string {
	if a == nil {
		return nil
	}
	out := append([]string{a.BearerToken, a.Passphrase}, passwordForms(a.Username, a.Password)...)
	if a.Proxy != nil {
		out = append(out, a.Proxy.Address)
		out = append(out, passwordForms(a.Proxy.Username, a.Proxy.Password)...)
		if u, err := url.Parse(a.Proxy.Address); err == nil && u.User != nil {
			password, _ := u.User.Password()
			out = append(out, passwordForms(u.User.Username(), password)...)
		}
	}
	const shortest = 8 // of a line of a private key; a shorter one is the end of it
	for _, key := range [][]byte{a.Identity, a.ClientKey} {
		for line := range strings.Lines(string(key)) {
			if line = strings.TrimSpace(line); len(line) >= shortest && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	return out
}

func passwordForms(username, password string) []string {
	if password == "" {
		return nil
	}
	encode := base64.StdEncoding.EncodeToString
	return []string{encode([]byte(username + ":" + password)), encode([]byte(password)), url.QueryEscape(password), url.PathEscape(password), password}
}
