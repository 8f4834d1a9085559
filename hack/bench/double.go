package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// double stands before an API server and forwards everything, but says that it is another cluster: one API
// server can stand for many members, each with connections of its own.
type double struct {
	server *httptest.Server
}

func newDouble(cfg *rest.Config, uid string) (*double, error) {
	upstream, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: upstream, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the double's own credentials count
		},
	}
	identity, err := yaml.Marshal(&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(uid)},
	})
	if err != nil {
		return nil, err
	}
	if identity, err = yaml.YAMLToJSON(identity); err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/namespaces/"+metav1.NamespaceSystem) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(identity)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	return &double{server: server}, nil
}

func (d *double) kubeconfig() ([]byte, error) {
	const name = "double"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   d.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw}),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "any"}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

func (d *double) close() {
	d.server.CloseClientConnections()
	d.server.Close()
}

// newDoubles makes doubles of one cluster.
func (f *fleet) newDoubles(of string, n int) ([]*double, error) {
	cfg, err := f.lab.Cluster(of).RESTConfig()
	if err != nil {
		return nil, err
	}
	var out []*double
	for i := range n {
		d, err := newDouble(cfg, fmt.Sprintf("double-%d-of-%s", i, of))
		if err != nil {
			return out, err
		}
		out = append(out, d)
	}
	return out, nil
}
