package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// countRoots makes the test program print how many CA certificates it trusts, and end.
const countRoots = "MINIFLEET_TEST_COUNT_ROOTS"

func TestMain(m *testing.M) {
	if os.Getenv(countRoots) == "" {
		os.Exit(m.Run())
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(len(pool.Subjects())) //nolint:staticcheck // it lists the embedded ones too
}

// An image needs no CA certificates of its own, and those that a system has are used and no others.
func TestRoots(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	one := filepath.Join(t.TempDir(), "ca.crt")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(one, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if roots := trusted(t, filepath.Join(t.TempDir(), "missing")); roots < 50 {
		t.Errorf("a system without certificates trusts %d", roots)
	}
	if roots := trusted(t, one); roots != 1 {
		t.Errorf("a system with one certificate trusts %d", roots)
	}
}

func trusted(t *testing.T, file string) (roots int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), countRoots+"=yes", "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+t.TempDir())
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if _, err := fmt.Sscan(string(output), &roots); err != nil {
		t.Fatal(err)
	}
	return roots
}

func TestTimeZonesAreBuiltIn(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(output)), "time/tzdata") {
		t.Error("the program does not hold time zones")
	}
}

// What the program is made of is in the build context of the Dockerfile, too.
func TestBuildContextIsWhole(t *testing.T) {
	content, err := os.ReadFile(".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/minifleet/minifleet/"
	for _, path := range strings.Fields(string(output)) {
		folder, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		ignored := ""
		for _, line := range strings.Fields(string(content)) {
			pattern, kept := strings.CutPrefix(line, "!")
			if strings.HasPrefix(folder+"/", pattern+"/") {
				if ignored = line; kept {
					ignored = ""
				}
			}
		}
		if ignored != "" {
			t.Errorf("%s is left out by %q of .dockerignore", folder, ignored)
		}
	}
}
