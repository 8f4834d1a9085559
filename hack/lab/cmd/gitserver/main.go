// Command gitserver serves the bare repositories in a directory over smart HTTP on 127.0.0.1, until it
// is told to end. It is how the demo's repository outlives `make demo`.
//
//	gitserver -dir DIR [-address 127.0.0.1:PORT] [-create NAME]
//
// It writes the address that it serves at to DIR/address when it is ready.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/minifleet/minifleet/hack/lab"
)

func main() {
	dir := flag.String("dir", "", "directory of the bare repositories")
	address := flag.String("address", "", "HOST:PORT to serve at; a free port of 127.0.0.1 if empty")
	create := flag.String("create", "", "repository to make if it is not there")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *address, *create); err != nil {
		log.Fatal(err)
	}
}

func run(dir, address, create string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := serve(dir, address)
	if err != nil {
		return err
	}
	if create != "" {
		if err := createRepo(server, create); err != nil {
			return errors.Join(err, server.Stop())
		}
	}
	if err := announce(dir, server.Address()); err != nil {
		return errors.Join(err, server.Stop())
	}
	log.Printf("serving %s at http://%s", dir, server.Address())
	<-ctx.Done()
	return server.Stop()
}

func serve(dir, address string) (*lab.GitServer, error) {
	if address == "" {
		return lab.NewGitServer(dir)
	}
	return lab.NewGitServerAt(dir, address)
}

func createRepo(server *lab.GitServer, name string) error {
	_, err := os.Stat(server.RepoPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return server.CreateRepo(name)
	}
	return err
}

// announce writes the file in one step, so that whoever waits for it never reads half of it.
func announce(dir, address string) error {
	path := filepath.Join(dir, "address")
	if err := os.WriteFile(path+".new", []byte(address+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
