package lab

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigFor returns a kubeconfig in which everything is embedded.
func kubeconfigFor(name, server string, ca []byte, pair keyPair) ([]byte, error) {
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// WithServer returns the kubeconfig with every server replaced by another HOST:PORT, such as a
// Proxy's. The API servers' certificates are good for 127.0.0.1 and localhost.
func WithServer(kubeconfig []byte, address string) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + address
	}
	return clientcmd.Write(*config)
}
