package controllers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// signsWith has commits and tags of the clone signed with an SSH key, and returns the public key.
func (r *repository) signsWith(name string) []byte {
	GinkgoHelper()
	path := filepath.Join(filepath.Dir(r.dir), name)
	if _, err := os.Stat(path); err != nil {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", out)
	}
	for key, value := range map[string]string{"gpg.format": "ssh", "user.signingKey": path, "commit.gpgSign": "true", "user.name": "test", "user.email": "test@example.org"} {
		r.git(r.dir, "config", key, value)
	}
	public, err := os.ReadFile(path + ".pub")
	Expect(err).NotTo(HaveOccurred())
	return public
}

var _ = Describe("A source with spec.verify", func() {
	It("applies what is signed by a key of its Secret alone, and keeps what was applied until then", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "keys"}}
		keys.Data = map[string][]byte{"ada.pub": r.signsWith("ada")}
		Expect(hub.Create(ctx, keys)).To(Succeed())
		r.commit(map[string]string{"a.yaml": harmlessFile})
		now := r.source(ctx)
		edit := func(change func(*v1alpha1.GitSourceSpec)) error {
			s := now()
			change(&s.Spec)
			return hub.Update(ctx, s)
		}
		verify := func(mode v1alpha1.VerifyMode, ref *v1alpha1.GitRef) func() error {
			return func() error {
				return edit(func(s *v1alpha1.GitSourceSpec) {
					s.Verify, s.Ref = &v1alpha1.GitVerify{Mode: mode, SecretRef: v1alpha1.LocalReference{Name: "keys"}}, ref
				})
			}
		}
		ready := func() string { return statusReason(now().Status.Conditions) }
		verified := func() *metav1.Condition {
			return meta.FindStatusCondition(now().Status.Conditions, v1alpha1.ConditionSourceVerified)
		}
		failed := func(part string) {
			GinkgoHelper()
			Eventually(verified).Should(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring(part))))
			Eventually(ready).Should(Equal("False VerificationFailed"))
			Expect(says(now().Status.Conditions)).To(HaveSuffix("; revision " + now().Status.Revision + " stays applied"))
		}
		Eventually(verify(v1alpha1.VerifyHead, nil)).Should(Succeed())
		Eventually(verified).Should(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", And(ContainSubstring("the commit is signed by ssh-ed25519 SHA256:"), HaveSuffix("(ada)")))))
		Eventually(w.line).WithArguments(ctx, "harmless").Should(Equal("True Synced Synced Progressing 1/1"))
		first := job(ctx, "alpine", w.name, "harmless")
		good := now().Status
		Expect(good.Commits).To(HaveLen(1))
		Expect(good.Commits[0].Verification).To(HaveValue(And(HaveField("Mode", v1alpha1.VerifyHead), HaveField("Commit", HavePrefix("ssh-ed25519 SHA256:")), HaveField("Tag", ""))))
		unchanged := func() {
			GinkgoHelper()
			Consistently(func() []string { return w.names(ctx) }, "1s").Should(ConsistOf("harmless"))
			Expect(now().Status).To(And(HaveField("Commit", good.Commit), HaveField("Commits", HaveLen(len(now().Status.Commits)))))
			Expect(job(ctx, "alpine", w.name, "harmless")).To(And(HaveField("UID", first.UID), HaveField("DeletionTimestamp", BeNil())))
			Expect(jobsMade("alpine", w.name)).To(Equal(1))
		}

		By("pushing a commit without a signature that removes all and adds another")
		r.git(r.dir, "config", "commit.gpgSign", "false")
		r.commit(map[string]string{"a.yaml": "", "b.yaml": strings.Replace(harmlessFile, "name: harmless", "name: another", 1)})
		failed("it is not signed; sign it with a key of Secret " + w.name + "/keys")
		unchanged()

		By("signing it with a key that is not in the Secret")
		r.signsWith("eve")
		r.git(r.dir, "commit", "-q", "--amend", "-S", "-m", "by eve")
		r.git(r.dir, "push", "-q", "--force", "origin", "HEAD")
		failed("which is none of those in the Secret")
		unchanged()

		By("taking back both, and then the key of what is applied")
		r.git(r.dir, "reset", "-q", "--hard", "HEAD~")
		r.git(r.dir, "push", "-q", "--force", "origin", "HEAD")
		Eventually(ready).Should(Equal("True Succeeded"))
		put := func(name string, key []byte) {
			GinkgoHelper()
			keys.Data = map[string][]byte{name: key}
			Expect(hub.Update(ctx, keys)).To(Succeed())
		}
		put("eve.pub", r.signsWith("eve"))
		failed("which is none of those in the Secret")
		unchanged()
		put("eve", []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n"))
		Eventually(ready).Should(Equal("False SecretInvalid"))
		Expect(verified()).To(HaveField("Message", And(ContainSubstring(`Secret `+w.name+`/keys: key "eve" holds a private key`), Not(ContainSubstring("hunter2")))))
		unchanged()
		put("ada.pub", r.signsWith("ada"))
		Eventually(ready).Should(Equal("True Succeeded"))

		By("verifying tags, one of which is signed under another name")
		err := verify(v1alpha1.VerifyTag, &v1alpha1.GitRef{Branch: "main"})()
		Expect(err).To(MatchError(ContainSubstring("modes Tag and TagAndHEAD verify a signed tag: set ref.tag")))
		r.git(r.dir, "tag", "-s", "-m", "v1", "v1")
		r.git(r.dir, "push", "-q", "origin", "v1", "v1:refs/tags/v2")
		Eventually(verify(v1alpha1.VerifyTag, &v1alpha1.GitRef{Tag: "v2"})).Should(Succeed())
		failed(`it was signed as tag "v1"`)
		unchanged()
		Eventually(verify(v1alpha1.VerifyTagAndHead, &v1alpha1.GitRef{Tag: "v1"})).Should(Succeed())
		Eventually(ready).Should(Equal("True Succeeded"))
		Expect(verified().Message).To(And(ContainSubstring("the tag is signed by"), ContainSubstring("the commit is signed by")))
		unchanged()
	})
})
