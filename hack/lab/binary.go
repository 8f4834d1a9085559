package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Binary returns how to run a component (etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kwok, kubectl): the program's path and the arguments that come before its own. It is
// the program of that name in $KUBEBUILDER_ASSETS if there is one, else bin/testcluster of this
// repository, which `make bin/testcluster` builds.
func Binary(component string) (path string, args []string, err error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		path := filepath.Join(assets, component)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil, nil
		}
	}
	root, err := RepositoryRoot()
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(root, "bin", "testcluster")
	if _, err := os.Stat(path); err != nil {
		return "", nil, fmt.Errorf("no program for %s: %w: run `make bin/testcluster`, which takes minutes the first time", component, err)
	}
	return path, []string{component}, nil
}

// RepositoryRoot returns the directory of this module's go.mod, looked for upward from the working
// directory, then from this source file.
func RepositoryRoot() (string, error) {
	starts := []string{}
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			// The test-cluster program has a go.mod of its own, so go.mod alone does not do.
			if isFile(filepath.Join(dir, "go.mod")) && isFile(filepath.Join(dir, "hack", "lab", "binary.go")) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("lab: not inside the repository: no go.mod with hack/lab beside it in this or a parent directory")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
