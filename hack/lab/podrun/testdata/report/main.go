// Report says what it is that it runs as, as JSON over HTTP, until it is asked to end.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Report is what the container finds of itself.
type report struct {
	UID, GID int
	Groups   []int
	Args     []string
	Env      map[string]string
	Status   map[string]string
	Files    map[string]string
	Writable map[string]bool
	Hostname string
	PID      int
}

func main() {
	listen := ":8080"
	for _, arg := range os.Args {
		if address, found := strings.CutPrefix(arg, "--listen="); found {
			listen = address
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: listen}
	http.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(found(r.URL.Query()["file"], r.URL.Query()["dir"]))
	})
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	context.AfterFunc(ctx, func() { fmt.Println("asked to end"); _ = server.Close() })
	fmt.Println("listening")
	if err := server.ListenAndServe(); ctx.Err() == nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func found(files, dirs []string) report {
	hostname, _ := os.Hostname()
	groups, _ := os.Getgroups()
	r := report{
		UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Args: os.Args, Hostname: hostname, PID: os.Getpid(),
		Env: map[string]string{}, Status: map[string]string{}, Files: map[string]string{}, Writable: map[string]bool{},
	}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		r.Env[key] = value
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		r.Status[key] = strings.TrimSpace(value)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			content = []byte(err.Error())
		}
		r.Files[name] = string(content)
	}
	for _, dir := range dirs {
		r.Writable[dir] = os.WriteFile(dir+"/probe", nil, 0o600) == nil
	}
	return r
}
