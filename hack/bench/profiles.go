package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// profile saves CPU profiles of the controller and of all API servers, from now on and for about as long as d, into
// the directory of the option. It returns at once; what it returns waits until they are saved.
func (f *fleet) profile(ctx context.Context, name string, d time.Duration) (saved func() error) {
	seconds := max(1, int(math.Round(d.Seconds())))
	sources := map[string]func() (io.ReadCloser, error){
		"controller": func() (io.ReadCloser, error) {
			return f.controllerProfile(ctx, fmt.Sprintf("profile?seconds=%d", seconds))
		},
	}
	for _, c := range f.lab.Clusters() {
		sources[c.Name()] = func() (io.ReadCloser, error) {
			cfg, err := c.RESTConfig()
			if err != nil {
				return nil, err
			}
			typed, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return nil, err
			}
			return typed.RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(seconds)).Stream(ctx)
		}
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	var errs []error
	for of, open := range sources {
		group.Go(func() {
			if err := saveTo(filepath.Join(f.options.profiles, name+"-"+of+".pprof"), open); err != nil {
				lock.Lock()
				defer lock.Unlock()
				errs = append(errs, fmt.Errorf("profile of %s: %w", of, err))
			}
		})
	}
	return func() error {
		group.Wait()
		return errors.Join(errs...)
	}
}

// heapProfile saves what is live in the controller, into the directory of the option where there is one.
func (f *fleet) heapProfile(ctx context.Context, name string) error {
	if f.options.profiles == "" {
		return nil
	}
	return saveTo(filepath.Join(f.options.profiles, name+"-heap.pprof"), func() (io.ReadCloser, error) { return f.controllerProfile(ctx, "heap?gc=1") })
}

// controllerProfile is one of the controller's profiles.
func (f *fleet) controllerProfile(ctx context.Context, which string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.pprofURL+"/debug/pprof/"+which, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func saveTo(path string, open func() (io.ReadCloser, error)) error {
	from, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
