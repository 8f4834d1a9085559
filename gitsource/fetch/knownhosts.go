package fetch

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the hash of names in known_hosts
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// maxHostKeyBytes is the largest host key that a message repeats.
	maxHostKeyBytes = 2048
	// hashMagic begins the hash of a name.
	hashMagic = "|1|"
)

// knownHosts are the host keys that are trusted, and those that are not any more, from a file in the format of OpenSSH.
type knownHosts struct {
	entries []hostEntry
	revoked map[string]int // line by key
	// unread are the lines that cannot be read, and are left out as OpenSSH does.
	unread []int
}

// hostEntry is a line.
type hostEntry struct {
	line      int
	names     string // patterns, or one hash
	key       ssh.PublicKey
	authority bool // of certificates of hosts
}

// parseKnownHosts reads a file. A line that revokes a key has to be readable.
func parseKnownHosts(data []byte) (*knownHosts, error) {
	k := &knownHosts{revoked: map[string]int{}}
	number := 0
	for text := range bytes.Lines(data) {
		number++
		fields := strings.Fields(string(text))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		marker := ""
		if strings.HasPrefix(fields[0], "@") {
			marker, fields = fields[0], fields[1:]
		}
		key, err := hostKeyOf(fields)
		switch {
		case err == nil && marker == "@revoked":
			k.revoked[string(key.Marshal())] = number
		case err == nil && (marker == "" || marker == "@cert-authority"):
			k.entries = append(k.entries, hostEntry{line: number, names: fields[0], key: key, authority: marker != ""})
		case marker == "@revoked":
			return nil, secretInvalid(fmt.Sprintf("line %d of known_hosts revokes a key and cannot be read; correct it", number))
		default:
			k.unread = append(k.unread, number)
		}
	}
	if len(k.entries) == 0 {
		return nil, secretInvalid("known_hosts has no line that names a host and its key; put there what ssh-keyscan HOST prints, once its fingerprints are checked")
	}
	return k, nil
}

var errHostKey = errors.New("not a host and its key")

// hostKeyOf reads the key of a line: names, type, key, and a comment.
func hostKeyOf(fields []string) (ssh.PublicKey, error) {
	const least = 3
	if len(fields) < least {
		return nil, errHostKey
	}
	data, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePublicKey(data)
	if err != nil {
		return nil, err
	}
	if _, isCertificate := key.(*ssh.Certificate); isCertificate || key.Type() != fields[1] {
		return nil, errHostKey
	}
	return key, nil
}

// hostName is what known_hosts calls a server: HOST at port 22, [HOST]:PORT otherwise.
func hostName(host, port string) string {
	host = strings.ToLower(host)
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// of returns the lines about a server, in their order.
func (k *knownHosts) of(name string) []hostEntry {
	var out []hostEntry
	for _, e := range k.entries {
		if namesMatch(e.names, name) {
			out = append(out, e)
		}
	}
	return out
}

// namesMatch says whether the names of a line include a server: a hash of it, or patterns of which one matches, and none
// that is negated.
func namesMatch(names, name string) bool {
	if hashed, ok := strings.CutPrefix(names, hashMagic); ok {
		return hashMatches(hashed, name)
	}
	matched := false
	for pattern := range strings.SplitSeq(strings.ToLower(names), ",") {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if pattern == "" || !glob(canonical(pattern), name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// canonical is a pattern as hostName has it: some write the port without brackets, or where it is the usual one.
func canonical(pattern string) string {
	if strings.Count(pattern, ":") != 1 && !strings.HasPrefix(pattern, "[") {
		return pattern
	}
	host, port, err := net.SplitHostPort(pattern)
	switch {
	case err == nil:
		return hostName(host, port)
	case strings.HasPrefix(pattern, "[") && strings.HasSuffix(pattern, "]"):
		return pattern[1 : len(pattern)-1]
	}
	return pattern
}

// hashMatches compares SALT|HASH, both in base64, with a name.
func hashMatches(hashed, name string) bool {
	saltText, sumText, ok := strings.Cut(hashed, "|")
	salt, saltErr := base64.StdEncoding.DecodeString(saltText)
	sum, sumErr := base64.StdEncoding.DecodeString(sumText)
	if !ok || saltErr != nil || sumErr != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	_, _ = mac.Write([]byte(name)) // a hash does not fail
	return hmac.Equal(mac.Sum(nil), sum)
}

// glob matches * and ?, in time that grows with the product of the lengths, whatever the pattern is.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Algorithms of keys, those with the shortest keys first, and of certificates.
var (
	plainAlgorithms = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	certAlgorithms = []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
)

// hostKeyAlgorithms are what a server is asked to prove itself with: those of the entries about it, in their order, and
// then the others, so that a server which has none of them is told apart by its key, which a message can name.
func hostKeyAlgorithms(entries []hostEntry) []string {
	var out []string
	add := func(algorithms ...string) {
		for _, a := range algorithms {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	for _, e := range entries {
		switch {
		case e.authority:
			add(certAlgorithms...)
		case e.key.Type() == ssh.KeyAlgoRSA:
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		case slices.Contains(plainAlgorithms, e.key.Type()):
			add(e.key.Type())
		}
	}
	add(plainAlgorithms...)
	return out
}

// check says whether the key that a server has proved to have is one of its known ones; nil where it is. A now of nil is the
// clock of the machine.
func (k *knownHosts) check(host, port string, key ssh.PublicKey, now func() time.Time) *Error {
	name := hostName(host, port)
	entries := k.of(name)
	if line, ok := k.revokes(key); ok {
		return fail(ReasonUnreachable, fmt.Sprintf("the host key of %s is revoked by line %d of known_hosts in the Secret that spec.secretRef names: somebody else may have it, and answer in the place of the server; ask whoever runs the server for its new key", name, line))
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		return checkHostCert(name, host, cert, entries, now)
	}
	var lines []int
	for _, e := range entries {
		if e.authority {
			continue
		}
		if bytes.Equal(e.key.Marshal(), key.Marshal()) {
			return nil
		}
		lines = append(lines, e.line)
	}
	if len(lines) == 0 {
		return fail(ReasonUnreachable, "known_hosts in the Secret that spec.secretRef names has no host key of "+name+k.unreadText()+addLine(name, key))
	}
	return fail(ReasonUnreachable, "the host key of "+name+" is none of those in known_hosts ("+lineText(lines)+
		") in the Secret that spec.secretRef names: the server has changed it, or another one answers in its place"+addLine(name, key))
}

// revokes finds the line that revokes a key, that of a certificate, or that of its authority.
func (k *knownHosts) revokes(key ssh.PublicKey) (line int, ok bool) {
	keys := []ssh.PublicKey{key}
	if cert, isCert := key.(*ssh.Certificate); isCert {
		keys = []ssh.PublicKey{cert.Key, cert.SignatureKey}
	}
	for _, key := range keys {
		if line, ok := k.revoked[string(key.Marshal())]; ok {
			return line, true
		}
	}
	return 0, false
}

func checkHostCert(name, host string, cert *ssh.Certificate, entries []hostEntry, now func() time.Time) *Error {
	known := slices.ContainsFunc(entries, func(e hostEntry) bool {
		return e.authority && bytes.Equal(e.key.Marshal(), cert.SignatureKey.Marshal())
	})
	if !known {
		return fail(ReasonUnreachable, "the certificate of the host "+name+" is signed by an authority that known_hosts in the Secret that spec.secretRef names does not have"+
			addLine("@cert-authority "+name, cert.SignatureKey))
	}
	checker := ssh.CertChecker{Clock: now}
	if err := checker.CheckCert(strings.ToLower(host), cert); cert.CertType != ssh.HostCert || err != nil {
		return fail(ReasonUnreachable, "the certificate of the host "+name+" is not valid for it at this time; whoever runs the server has to renew it")
	}
	return nil
}

// addLine says what to add to known_hosts, and what to check before.
func addLine(names string, key ssh.PublicKey) string {
	const how = "; where whoever runs the server confirms its fingerprint "
	text := how + ssh.FingerprintSHA256(key) + ", "
	if len(key.Marshal()) > maxHostKeyBytes {
		return text + "add the line that ssh-keyscan prints for it to known_hosts"
	}
	return text + "add this line to known_hosts: " + names + " " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

func (k *knownHosts) unreadText() string {
	if len(k.unread) == 0 {
		return ""
	}
	return " (" + lineText(k.unread) + " cannot be read)"
}

// lineText names lines, at most so many that a message stays short.
func lineText(lines []int) string {
	const most = 5
	texts := make([]string, 0, most)
	for _, l := range lines[:min(len(lines), most)] {
		texts = append(texts, strconv.Itoa(l))
	}
	more := ""
	if len(lines) > most {
		more = " and others"
	}
	if len(lines) == 1 {
		return "line " + texts[0]
	}
	return "lines " + strings.Join(texts, ", ") + more
}
