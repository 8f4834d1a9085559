package controllers_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab/sshd"
)

// keep stores a Secret of the world.
func (w *world) keep(ctx context.Context, name string, data map[string][]byte) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	Expect(client.IgnoreNotFound(hub.Delete(ctx, secret))).To(Succeed())
	secret.Data = data
	Expect(hub.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, secret)) })
}

var _ = Describe("A repository over SSH", func() {
	It("is read with a private key and known_hosts, and what lacks is named", func(ctx SpecContext) {
		if err := sshd.Available(); err != nil {
			Skip("NOT TESTED with OpenSSH: " + err.Error())
		}
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": harmlessFile})
		dir := GinkgoT().TempDir()
		path, public, err := sshd.NewKey(filepath.Join(dir, "identity"), "ed25519")
		Expect(err).NotTo(HaveOccurred())
		identity, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		server, err := sshd.Start(dir, sshd.Options{AuthorizedKeys: []string{public}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Wait)
		DeferCleanup(server.Stop)
		gitSource(ctx, w.name, "fleet", server.URL(r.server.RepoPath("fleet")), func(s *v1alpha1.GitSourceSpec) {
			s.SecretRef, s.Interval = &v1alpha1.LocalReference{Name: "git"}, metav1.Duration{Duration: time.Second}
			s.DefaultPlacement = &v1alpha1.LocalReference{Name: "all"}
		})
		says := func(reason string, parts ...string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				is, message := sourceState(ctx, w.name, "fleet")
				g.Expect(is).To(Equal(reason))
				for _, part := range parts {
					g.Expect(message).To(ContainSubstring(part))
				}
				g.Expect(message).NotTo(ContainSubstring(strings.Split(string(identity), "\n")[1]))
			}).Should(Succeed())
		}
		says("False SecretInvalid", "there is no Secret "+w.name+"/git", "identity and known_hosts")
		w.keep(ctx, "git", map[string][]byte{"identity": identity})
		says("False SecretInvalid", "Secret "+w.name+"/git has no host keys", "ssh-keyscan -p ")
		w.keep(ctx, "git", map[string][]byte{"identity": identity, "known_hosts": []byte(server.Name() + " " + public)})
		says("False Unreachable", "add this line to known_hosts: "+server.Name()+" "+server.HostKeys()[0])
		w.keep(ctx, "git", map[string][]byte{"identity": identity, "identity.pub": []byte(public), "known_hosts": server.KnownHosts()})
		commits := func() []v1alpha1.Commit {
			var s v1alpha1.GitSource
			if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "fleet"}, &s); err != nil {
				return nil
			}
			return s.Status.Commits
		}
		Eventually(commits).Should(HaveLen(1))

		By("following the branch, and through no proxy that does not answer")
		r.commit(map[string]string{"b.txt": "b"})
		Eventually(commits).Should(HaveLen(2))
		var s v1alpha1.GitSource
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "fleet"}, &s)).To(Succeed())
		before := s.DeepCopy()
		s.Spec.ProxySecretRef = &v1alpha1.LocalReference{Name: "proxy"}
		Expect(hub.Patch(ctx, &s, client.MergeFrom(before))).To(Succeed())
		says("False SecretInvalid", "spec.proxySecretRef: there is no Secret "+w.name+"/proxy", "address")
		w.keep(ctx, "proxy", map[string][]byte{"address": []byte("socks5://127.0.0.1:1")})
		says("False Unreachable", "the proxy that spec.proxySecretRef names cannot be used")
		Expect(commits()).To(HaveLen(2))
	})

	It("has a URL of one of the forms that Git knows", func(ctx SpecContext) {
		for url, accepted := range map[string]bool{
			"https://git.example.org/x":             true,
			"https://git.example.org:8443/a/b.git":  true,
			"http://127.0.0.1/x":                    true,
			"ssh://git@git.example.org/x":           true,
			"ssh://git.example.org/x":               true,
			"ssh://git@git.example.org:2222/~ada/x": true,
			"ssh://git@[2001:db8::1]:2222/x":        true,
			"ssh://git@[2001:db8::1]/x":             true,
			"git@git.example.org:a/b.git":           true,
			"git@git.example.org:/srv/x":            true,
			"git@[2001:db8::1]:x":                   true,
			"org-1@github.com:org/x.git":            true,
			"https://ada:s3cr3t@git.example.org/x":  false,
			"https://ada@git.example.org/x":         false,
			"ssh://git:s3cr3t@git.example.org/x":    false,
			"ssh://git@git.example.org:team/x":      false,
			"ssh://git@git.example.org":             false,
			"ssh://git@git.example.org/":            false,
			"git.example.org:x":                     false,
			"git@git.example.org:":                  false,
			"git@git.example.org":                   false,
			"git://git.example.org/x":               false,
			"file:///etc":                           false,
			"/srv/x":                                false,
			"ext::sh -c id":                         false,
			"ssh://git@git.example.org/x y":         false,
			"https://git.example.org/x y":           false,
			"git@git.example.org:x\n- y":            false,
			"https://" + strings.Repeat("a", 2048):  false,
		} {
			_, err := offer(ctx, gitSourceManifest("url: "+strconv.Quote(url)+"\n"))
			if accepted {
				Expect(err).NotTo(HaveOccurred(), url)
			} else {
				Expect(err).To(HaveOccurred(), url)
			}
		}
		_, err := offer(ctx, gitSourceManifest("url: ssh://git@git.example.org:team/x\n"))
		Expect(err).To(MatchError(ContainSubstring("USER@HOST:PATH without ssh://")))
	})
})
