package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Files that every pod finds at scriptsPath. The files of a container are NAME-INDEX.sh: wait (of the
// one that runs Flux) or start (of a sidecar), and the pieces of shell that those source.
const (
	initScript    = "flux-init.sh"
	viewScript    = "flux-view.sh"
	connectScript = "flux-connect.sh"
	fluxionScript = "load-fluxion.sh"
	brokerFile    = "broker.toml"
	hostlistFile  = "hostlist"
)

// ConfigMapName is the name of a MiniCluster's ConfigMap.
func ConfigMapName(miniCluster string) string { return miniCluster + "-entrypoint" }

func (m *miniCluster) configMapName() string { return ConfigMapName(m.name) }

// configMap holds what the pods run. No key is in it.
func (m *miniCluster) configMap() (*corev1.ConfigMap, error) {
	files := map[string]string{
		brokerFile:   m.brokerConfig(),
		hostlistFile: m.hostlist() + "\n",
	}
	for _, script := range []string{initScript, viewScript, connectScript, fluxionScript} {
		text, err := m.script(script, m.viewData())
		if err != nil {
			return nil, err
		}
		files[script] = text
	}
	for i := range m.spec.Containers {
		if err := m.addContainerFiles(files, i); err != nil {
			return nil, fmt.Errorf("scripts of container %d: %w", i, err)
		}
	}
	if err := m.addServicesFiles(files); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: m.objectMeta(m.configMapName(), nil),
		Data:       files,
	}, nil
}

// addContainerFiles adds a container's entrypoint, if it gets one, and the pieces that it sources.
func (m *miniCluster) addContainerFiles(files map[string]string, index int) error {
	c := &m.spec.Containers[index]
	entrypoint := "start"
	if index == m.runner {
		entrypoint = "wait"
	} else if c.NoWrapEntrypoint {
		return nil
	}
	pieces, err := m.pieces(index)
	if err != nil {
		return err
	}
	text, err := m.script(entrypoint+".sh", m.entrypointData(index, pieces))
	if err != nil {
		return err
	}
	files[pieceFile(entrypoint, index)] = text
	for name, piece := range pieces {
		files[pieceFile(name, index)] = piece
	}
	return nil
}

func pieceFile(name string, index int) string {
	return fmt.Sprintf("%s-%d.sh", name, index)
}
