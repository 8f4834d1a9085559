package clusters

import (
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, v := range []string{"v1.36.3", "v1.29.4-gke.1043002", "v1.30.0+k3s1", "v1.28.9-eks-036c24b"} {
		if got, err := parseVersion([]byte(`{"major":"1","gitVersion":"` + v + `"}`)); err != nil || got != v {
			t.Errorf("%s: got %q, %v", v, got, err)
		}
	}
	for name, body := range map[string]string{
		"empty":          "",
		"a page":         "<html>Sign in</html>",
		"no version":     "{}",
		"null":           "null",
		"a list":         "[]",
		"a number":       `{"gitVersion": 1}`,
		"no v":           `{"gitVersion": "1.30.0"}`,
		"only v":         `{"gitVersion": "v"}`,
		"an escape":      `{"gitVersion": "v1.30\u001b[31m"}`,
		"two lines":      `{"gitVersion": "v1.30.0\nREADY"}`,
		"a trailing one": `{"gitVersion": "v1.30.0\n"}`,
		"markup":         `{"gitVersion": "v1<script>"}`,
		"a space":        `{"gitVersion": "v1.30 0"}`,
		"too long":       `{"gitVersion": "v` + strings.Repeat("1", 63) + `"}`,
		"cut short":      `{"gitVersion": "v1.3`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseVersion([]byte(body))
			if err == nil {
				t.Fatalf("got %q", got)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error %q could write to a terminal", err)
			}
		})
	}
}
