package clusters

import (
	"encoding/json"
	"fmt"
	"regexp"
)

var versionPattern = regexp.MustCompile(`^v[0-9A-Za-z.+_-]{1,62}$`)

// parseVersion reads the answer to /version. It comes from a member and goes to people's terminals, so
// only what looks like a version is let through.
func parseVersion(body []byte) (string, error) {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("the member's /version is not JSON: %w", err)
	}
	if !versionPattern.MatchString(v.GitVersion) {
		return "", fmt.Errorf("the member's /version holds no version")
	}
	return v.GitVersion, nil
}
