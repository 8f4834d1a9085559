package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const (
	// crowdFiles and crowdObjects are how large the repository is of which one file changes.
	crowdFiles, crowdObjects = 10_000, 4_000
	// crowdFolders are its folders.
	crowdFolders = 100
)

// crowdManifest is an object that has nothing but itself written, so that what is measured ends with the source's status.
const crowdManifest = `apiVersion: minifleet.dev/v1alpha1
kind: Placement
metadata: {name: crowd-%05d}
spec:
  numberOfClusters: %d
  clusterSelector: {matchLabels: {crowd: none}}
`

// crowd writes the files of a large repository.
func crowd(r *repository) error {
	for i := range crowdFiles {
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-%05d}\n", i)
		if i < crowdObjects {
			text = fmt.Sprintf(crowdManifest, i, 1)
		}
		path := filepath.Join(r.clone, crowdPath(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func crowdPath(i int) string { return fmt.Sprintf("%02d/%05d.yaml", i%crowdFolders, i) }

// commit measures what a commit takes that changes one file of a large repository, from the push to the source's status.
func (b *bench) commit(ctx context.Context) error {
	r, err := b.newRepository(ctx, "crowd")
	if err != nil {
		return err
	}
	if err := crowd(r); err != nil {
		return err
	}
	first, err := b.applied(ctx, r, nil)
	if err != nil {
		return err
	}
	b.say("a repository of %d files with %d objects: %s", crowdFiles, crowdObjects, milliseconds(first))
	bare, err := cloneBare(ctx, b.git.URL(r.name))
	if err != nil {
		return err
	}
	var floors, took []time.Duration
	for i := range b.options.singles + 1 {
		n := (i * 37) % crowdObjects
		pushed, err := b.applied(ctx, r, map[string]string{crowdPath(n): fmt.Sprintf(crowdManifest, n, i+2)})
		if err != nil {
			return err
		}
		floor, err := b.parseBare(ctx, bare, fmt.Sprintf("crowd-%d", i))
		if err != nil {
			return err
		}
		if i > 0 { // everybody's first
			floors, took = append(floors, floor), append(took, pushed)
		}
	}
	what := fmt.Sprintf("one of %d files changed, push to status", crowdFiles)
	b.report.row(what, "p50", took, "fetch, diff, one parse, one write", floors, quantile(0.5))
	b.report.row(what, p99Of(len(took)), took, "fetch, diff, one parse, one write", floors, quantile(0.99))
	return nil
}

// applied pushes files and returns how long it takes until the status of the source says that the commit is applied.
func (b *bench) applied(ctx context.Context, r *repository, files map[string]string) (time.Duration, error) {
	if err := r.push(ctx, files); err != nil {
		return 0, err
	}
	head, err := runGit(ctx, r.clone, "rev-parse", "HEAD")
	if err != nil {
		return 0, err
	}
	if _, err := b.trail.quiet(ctx, b.still()/4); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := r.fetch(ctx); err != nil {
		return 0, err
	}
	var last time.Time
	_, err = b.trail.until(ctx, "the status of the commit", func(all []event) bool {
		for i := range all {
			e := &all[i]
			if e.minifleet() && e.cluster == hubName && e.Object != nil && e.Object.Resource == "gitsources" && e.Object.Subresource == "status" {
				last = e.Answered
			}
		}
		var source v1alpha1.GitSource
		key := client.ObjectKey{Namespace: fleetNamespace, Name: r.name}
		return !last.IsZero() && b.hub.Get(ctx, key, &source) == nil && source.Status.Commit == head[:40]
	})
	return last.Sub(start), err
}

// parseBare is the floor of that: fetch, diff, one file parsed, and one write on the hub.
func (b *bench) parseBare(ctx context.Context, s *bareSource, name string) (time.Duration, error) {
	start := time.Now()
	files, err := s.fetch(ctx)
	if err != nil {
		return 0, err
	}
	if len(files) != 1 {
		return 0, fmt.Errorf("%d files have changed", len(files))
	}
	var placement v1alpha1.Placement
	if err := yaml.UnmarshalStrict([]byte(files[0]), &placement); err != nil {
		return 0, err
	}
	onHub := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": "hub"}}, Data: map[string]string{"manifest": files[0]}}
	if _, err := b.bare[hubName].CoreV1().ConfigMaps(floorNamespace).Create(ctx, onHub, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}
