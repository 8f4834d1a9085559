package gitsource

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// Keys that Flux CD had before it took those of Kubernetes, which come first where both are there.
const (
	oldCAKey   = "caFile"
	oldCertKey = "certFile"
	oldKeyKey  = "keyFile"
	// githubAppKey is of Secrets for a GitHub App, which is not supported.
	githubAppKey = "githubAppID"
)

// auth reads what a source shows its server and its proxy; nil without any.
func (r *Reconciler) auth(ctx context.Context, source *v1alpha1.GitSource) (*fetch.Auth, error) {
	return Credentials(source, func(field, name, wanted string) (map[string][]byte, error) {
		return r.secret(ctx, source.Namespace, field, name, wanted)
	})
}

// Credentials are what a source shows its server and its proxy; nil without any. Read reads the Secret of this name in the
// namespace of the source, which a field of it names; wanted says what to create where there is none.
func Credentials(source *v1alpha1.GitSource, read func(field, name, wanted string) (map[string][]byte, error)) (*fetch.Auth, error) {
	var auth *fetch.Auth
	if ref := source.Spec.SecretRef; ref != nil {
		const wanted = "create it with the keys " + v1alpha1.GitUsernameKey + " and " + v1alpha1.GitPasswordKey + ", or " + v1alpha1.GitBearerTokenKey +
			", or for SSH " + v1alpha1.GitIdentityKey + " and " + v1alpha1.GitKnownHostsKey
		data, err := read("spec.secretRef", ref.Name, wanted)
		if err != nil {
			return nil, err
		}
		found, problem := serverAuth(source.Spec.URL, data)
		if problem != "" {
			return nil, secretProblem("spec.secretRef", source.Namespace, ref.Name, problem)
		}
		auth = found
	}
	if ref := source.Spec.ProxySecretRef; ref != nil {
		const wanted = "create it with the key " + v1alpha1.ProxyAddressKey + ", for example http://proxy.example.org:3128, and " +
			v1alpha1.GitUsernameKey + " and " + v1alpha1.GitPasswordKey + " where the proxy wants them"
		data, err := read("spec.proxySecretRef", ref.Name, wanted)
		if err != nil {
			return nil, err
		}
		proxy, problem := proxyOf(data)
		if problem != "" {
			return nil, secretProblem("spec.proxySecretRef", source.Namespace, ref.Name, problem)
		}
		if auth == nil {
			auth = &fetch.Auth{}
		}
		auth.Proxy = proxy
	}
	return auth, nil
}

func secretProblem(field, namespace, name, problem string) error {
	return &sourceError{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("%s: Secret %s/%s %s", field, namespace, name, problem)}
}

// secret reads a Secret that a field of a source names. wanted says what to create where there is none.
func (r *Reconciler) secret(ctx context.Context, namespace, field, name, wanted string) (map[string][]byte, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var secret corev1.Secret
	err := r.Client.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &sourceError{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("%s: there is no Secret %s: %s", field, key, wanted)}
	case apierrors.IsForbidden(err):
		return nil, &sourceError{v1alpha1.ReasonBindingMissing, fmt.Sprintf(
			"%s: MiniFleet may not read Secret %s on the hub; to let it read Secrets and ConfigMaps of this namespace: %s",
			field, key, hubobjects.BindCommand(namespace, r.Namespace))}
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret.Data, nil
}

// serverAuth is what the data of a Secret means for a URL, or what is wrong with it.
func serverAuth(url string, data map[string][]byte) (auth *fetch.Auth, problem string) {
	auth = &fetch.Auth{CABundle: firstOf(data, v1alpha1.GitCAKey, oldCAKey)}
	if scan, ok := fetch.KeyscanCommand(url); ok {
		return auth, sshAuth(auth, data, scan)
	}
	auth.ClientCert, auth.ClientKey = firstOf(data, v1alpha1.GitCertKey, oldCertKey), firstOf(data, v1alpha1.GitKeyKey, oldKeyKey)
	switch {
	case len(auth.ClientCert) > 0 && len(auth.ClientKey) == 0:
		return nil, "has a client certificate (" + v1alpha1.GitCertKey + ") and no private key of it: add the key " + v1alpha1.GitKeyKey
	case len(auth.ClientCert) == 0 && len(auth.ClientKey) > 0:
		return nil, "has a private key (" + v1alpha1.GitKeyKey + ") and no client certificate of it: add the key " + v1alpha1.GitCertKey
	case len(data[v1alpha1.GitBearerTokenKey]) > 0: // before a password, as for Flux CD
		auth.BearerToken = string(data[v1alpha1.GitBearerTokenKey])
		return auth, ""
	case len(data[githubAppKey]) > 0:
		return nil, "is for a GitHub App, which is not supported: make a fine-grained token that may read the repository, and a Secret with " +
			v1alpha1.GitUsernameKey + " and, as " + v1alpha1.GitPasswordKey + ", that token"
	}
	auth.Username, auth.Password = string(data[v1alpha1.GitUsernameKey]), string(data[v1alpha1.GitPasswordKey])
	return auth, ""
}

// sshAuth adds what SSH needs. scan is the command that prints the server's host keys.
func sshAuth(auth *fetch.Auth, data map[string][]byte, scan string) (problem string) {
	auth.Identity = firstOf(data, v1alpha1.GitIdentityKey, corev1.SSHAuthPrivateKey)
	auth.Passphrase = string(data[v1alpha1.GitPasswordKey])
	auth.KnownHosts = data[v1alpha1.GitKnownHostsKey]
	switch {
	case len(auth.Identity) == 0 && len(data[v1alpha1.GitPasswordKey]) > 0:
		return "has a password and no private key, and SSH with a password is not supported: make a key with ssh-keygen -t ed25519, put it into the Secret under the key " +
			v1alpha1.GitIdentityKey + ", and give the server its public key; or use an https:// URL"
	case len(auth.Identity) == 0:
		return "has no private key for SSH: make one with ssh-keygen -t ed25519, put it into the Secret under the key " + v1alpha1.GitIdentityKey +
			", and give the server its public key"
	case len(auth.KnownHosts) == 0:
		return "has no host keys, without which any server could say that it is this one: put what " + scan +
			" prints into the Secret under the key " + v1alpha1.GitKnownHostsKey + ", once whoever runs the server has confirmed the fingerprints"
	}
	return ""
}

// proxyOf is what the data of a Secret means for a proxy, or what is wrong with it.
func proxyOf(data map[string][]byte) (proxy *fetch.Proxy, problem string) {
	proxy = &fetch.Proxy{
		Address: string(data[v1alpha1.ProxyAddressKey]), Username: string(data[v1alpha1.GitUsernameKey]), Password: string(data[v1alpha1.GitPasswordKey]),
	}
	if proxy.Address == "" {
		return nil, "has no address of a proxy: add the key " + v1alpha1.ProxyAddressKey + ", for example http://proxy.example.org:3128"
	}
	return proxy, ""
}

// firstOf is the value of the first key that has one.
func firstOf(data map[string][]byte, keys ...string) []byte {
	for _, key := range keys {
		if len(data[key]) > 0 {
			return data[key]
		}
	}
	return nil
}
