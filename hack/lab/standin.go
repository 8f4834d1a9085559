package lab

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// standIn uses the clusters that kubeconfig files lead to.
func (l *Lab) standIn(paths []string) error {
	if len(paths) < len(l.options.Clusters) {
		return fmt.Errorf("%s names %d clusters, but %d are needed", StandInEnv, len(paths), len(l.options.Clusters))
	}
	for i, spec := range l.options.Clusters {
		kubeconfig, err := os.ReadFile(paths[i])
		if err != nil {
			return err
		}
		config, err := restConfig(kubeconfig)
		if err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
		server, err := url.Parse(config.Host)
		if err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
		cluster := &Cluster{
			lab: l, spec: spec, kubeconfig: kubeconfig, address: server.Host,
			dir: filepath.Join(l.options.Dir, spec.Name),
		}
		if err := writeFiles(cluster.dir, map[string][]byte{"kubeconfig": kubeconfig}); err != nil {
			return err
		}
		l.clusters = append(l.clusters, cluster)
		l.progress("%s: stands in from %s", spec.Name, paths[i])
	}
	return nil
}
