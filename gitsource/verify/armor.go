package verify

import (
	"encoding/base64"
	"errors"
	"strings"
)

// errArmor is for a signature that is not exactly one block: what else is there, people might take for signed as well.
var errArmor = errors.New("its signature is not one armored block: nothing may be before, between or behind its lines")

// dearmor returns what is in the one block that a text has to be. Empty lines may follow it, as GitHub writes them. With
// headers, lines KEY: VALUE and an empty one come first, and a checksum may be last, as OpenPGP has them.
func dearmor(text, kind string, headers bool) ([]byte, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	last := len(lines) - 1
	if last < 1 || lines[0] != "-----BEGIN "+kind+"-----" || lines[last] != "-----END "+kind+"-----" {
		return nil, errArmor
	}
	body := lines[1:last]
	if headers {
		var ok bool
		if body, ok = afterHeaders(body); !ok {
			return nil, errArmor
		}
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.Join(body, ""))
	if err != nil || len(data) == 0 {
		return nil, errArmor
	}
	return data, nil
}

// afterHeaders drops the headers of OpenPGP's armor, and its checksum, which says nothing of who has signed.
func afterHeaders(lines []string) ([]string, bool) {
	for i, line := range lines {
		if line == "" {
			lines = lines[i+1:]
			if n := len(lines); n > 0 && len(lines[n-1]) == 5 && lines[n-1][0] == '=' {
				lines = lines[:n-1]
			}
			return lines, true
		}
		if !strings.Contains(line, ": ") && !strings.HasSuffix(line, ":") {
			return nil, false
		}
	}
	return nil, false
}
