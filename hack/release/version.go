package main

import (
	"fmt"
	"regexp"
	"strings"
)

// https://semver.org, with the v that tags have.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

var hash = regexp.MustCompile(`^[0-9a-f]{7,40}(-dirty)?$`)

// semanticVersion is what `git describe` says as a semantic version: where no tag is known, only a hash, one before all.
func semanticVersion(described string) (string, error) {
	if hash.MatchString(described) {
		// A number with a leading zero would not be valid, so the hash has a letter before it.
		return "v0.0.0-g" + described, nil
	}
	if !semantic.MatchString(described) {
		return "", fmt.Errorf("%q is neither a version like v1.2.3 nor the hash of a commit: say it with VERSION=…", described)
	}
	return described, nil
}

// dirty says that the version is of files that are in no commit.
func dirty(version string) bool { return strings.HasSuffix(version, "-dirty") }
