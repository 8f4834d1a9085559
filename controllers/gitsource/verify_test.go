package gitsource

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/hack/lab"
)

// signedRepository is a repository on a real server, and keys to sign with.
type signedRepository struct {
	t      *testing.T
	server *lab.GitServer
	dir    string
}

func newSignedRepository(t *testing.T) *signedRepository {
	t.Helper()
	dir := t.TempDir()
	server, err := lab.NewGitServer(filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	if err := server.CreateRepo("fleet"); err != nil {
		t.Fatal(err)
	}
	r := &signedRepository{t: t, server: server, dir: filepath.Join(dir, "clone")}
	r.run(dir, "git", "clone", "-q", server.URL("fleet"), r.dir)
	for _, name := range []string{"ada", "eve"} {
		r.run(dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name+" <"+name+"@example.org>", "-f", r.key(name))
	}
	return r
}

func (r *signedRepository) key(name string) string { return filepath.Join(filepath.Dir(r.dir), name) }

func (r *signedRepository) public(name string) []byte {
	r.t.Helper()
	data, err := os.ReadFile(r.key(name) + ".pub")
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

func (r *signedRepository) run(dir, program string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// git runs git with the key of somebody, and pushes all branches and tags.
func (r *signedRepository) git(signer string, args ...string) {
	r.t.Helper()
	config := []string{"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gpg.format=ssh", "-c", "user.signingKey=" + r.key(signer)}
	r.run(r.dir, "git", append(config, args...)...)
	r.run(r.dir, "git", "push", "-q", "--force", "--all")
	r.run(r.dir, "git", "push", "-q", "--force", "--prune", "origin", "refs/tags/*:refs/tags/*")
}

// fetches is how often content was fetched since it was asked last.
func (r *signedRepository) fetches() int {
	n := 0
	for _, req := range r.server.Requests() {
		if req.Service == "fetch" {
			n++
		}
	}
	r.server.ResetRequests()
	return n
}

func reasonAndMessage(err error) (string, string) {
	if err == nil {
		return "", ""
	}
	return reasonOf(err), err.Error()
}

func TestFetchVerifies(t *testing.T) {
	repo := newSignedRepository(t)
	source := newSource()
	source.Spec = v1alpha1.GitSourceSpec{URL: repo.server.URL("fleet"), Verify: &v1alpha1.GitVerify{Mode: v1alpha1.VerifyHead, SecretRef: v1alpha1.LocalReference{Name: "keys"}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "keys"}, Data: map[string][]byte{"ada.pub": repo.public("ada")}}
	hub := newHub(t, secret)
	r := &Reconciler{Client: hub, Fetcher: &fetch.Fetcher{}, Now: time.Now, Namespace: "minifleet-system"}
	t.Cleanup(r.Fetcher.CloseIdleConnections)
	read := func() (*tree, error) { return r.fetch(t.Context(), source, nil) }
	trusts := func(names ...string) {
		secret.Data = map[string][]byte{}
		for _, name := range names {
			secret.Data[name] = repo.public(name)
		}
		if err := hub.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	verified := func(step string, fetches int, commit, tag bool) {
		t.Helper()
		got, err := read()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if got.verified == nil || (got.verified.Commit != nil) != commit || (got.verified.Tags != nil) != tag {
			t.Errorf("%s: got %+v", step, got.verified)
		}
		if n := repo.fetches(); n != fetches {
			t.Errorf("%s: fetched %d times, want %d", step, n, fetches)
		}
	}
	refused := func(step string, fetches int, reason string, parts ...string) {
		t.Helper()
		got, err := read()
		gotReason, message := reasonAndMessage(err)
		if gotReason != reason || slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(message, p) }) {
			t.Errorf("%s: got %s: %s; want %s with %q", step, gotReason, message, reason, parts)
		}
		if !errors.As(err, new(*unverified)) {
			t.Errorf("%s: %T is not unverified", step, err)
		}
		if reason == v1alpha1.ReasonVerificationFailed && (got == nil || got.commit == "" || got.about.Subject == "" || got.verified != nil || got.parsed.Objects != nil) {
			t.Errorf("%s: got the tree %+v", step, got)
		}
		if n := repo.fetches(); n != fetches {
			t.Errorf("%s: fetched %d times, want %d", step, n, fetches)
		}
	}
	const failed = v1alpha1.ReasonVerificationFailed
	head, tag := v1alpha1.VerifyHead, v1alpha1.VerifyTag
	use := func(mode v1alpha1.VerifyMode, ref *v1alpha1.GitRef) {
		source.Spec.Verify.Mode, source.Spec.Ref = mode, ref
	}

	repo.git("ada", "commit", "-q", "--allow-empty", "-m", "unsigned")
	refused("unsigned", 1, failed, "revision main@", "it is not signed", "hpc/keys")
	repo.git("eve", "commit", "-q", "--allow-empty", "-S", "-m", "by eve")
	refused("by another", 1, failed, "none of those in the Secret")
	repo.git("ada", "commit", "-q", "--allow-empty", "-S", "-m", "by ada")
	verified("signed", 1, true, false)
	verified("the same commit", 0, true, false)
	trusts("eve")
	refused("the key was taken away", 0, failed, "none of those in the Secret")
	trusts("ada", "eve")
	verified("the key is there again", 0, true, false)

	use(tag, nil)
	refused("no ref", 0, v1alpha1.ReasonInvalidSpec, "spec.ref names none")
	use(tag, &v1alpha1.GitRef{Branch: "main"})
	refused("a branch", 0, v1alpha1.ReasonInvalidSpec, "mode Tag", "spec.ref.tag")
	use(tag, &v1alpha1.GitRef{Tag: "v1"})
	repo.git("ada", "tag", "v1")
	refused("a lightweight tag", 0, failed, "lightweight", "git tag -s")
	repo.git("ada", "tag", "-f", "-s", "-m", "v1", "v1")
	verified("a signed tag of the same commit", 1, false, true)
	verified("the same tag", 0, false, true)
	repo.git("ada", "tag", "-f", "-a", "-m", "v1", "v1")
	refused("a tag of the same commit that is not signed", 1, failed, "it is not signed")
	repo.git("ada", "tag", "-f", "v1", "v1^{}")
	refused("a lightweight tag of the same commit", 0, failed, "lightweight")
	repo.git("ada", "tag", "-f", "-s", "-m", "v1 again", "v1")
	verified("a signed tag again", 1, false, true)
	repo.run(repo.dir, "git", "tag", "v2", repo.run(repo.dir, "git", "rev-parse", "v1"))
	repo.git("ada", "tag", "-f", "v0.9", "HEAD~")
	use(tag, &v1alpha1.GitRef{Tag: "v2"})
	refused("a signed tag at another name", 0, failed, `signed as tag "v1"`)
	use(v1alpha1.VerifyTagAndHead, &v1alpha1.GitRef{SemVer: "<2.0.0"})
	verified("by version", 0, true, true)
	use(tag, &v1alpha1.GitRef{Name: "refs/tags/v1"})
	verified("by full name", 0, false, true)
	use(head, &v1alpha1.GitRef{Name: "refs/tags/v1"})
	verified("the commit of the same tag", 0, true, false)
	source.Spec.Verify = nil
	if got, err := read(); err != nil || got.verified != nil {
		t.Errorf("without spec.verify: %+v, %v", got.verified, err)
	}
}

// Another tag may come to lead to the commit that is applied.
func TestRevisionOfAnotherTag(t *testing.T) {
	repo := newSignedRepository(t)
	source := newSource()
	source.Spec = v1alpha1.GitSourceSpec{URL: repo.server.URL("fleet"), Ref: &v1alpha1.GitRef{SemVer: ">=1.0.0"}}
	r := &Reconciler{Client: newHub(t), Fetcher: &fetch.Fetcher{}, Now: time.Now}
	t.Cleanup(r.Fetcher.CloseIdleConnections)
	repo.git("ada", "commit", "-q", "--allow-empty", "-m", "one")
	for _, tag := range []string{"v1.0.0", "v1.1.0"} {
		repo.git("ada", "tag", tag)
		got, err := r.fetch(t.Context(), source, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got.revision, tag+"@") {
			t.Errorf("got %s, want %s", got.revision, tag)
		}
	}
}

// A commit that is over a limit is told as the one that was attempted.
func TestFetchNamesCommitOverLimit(t *testing.T) {
	repo := newSignedRepository(t)
	source := newSource()
	source.Spec = v1alpha1.GitSourceSpec{URL: repo.server.URL("fleet")}
	r := &Reconciler{Client: newHub(t), Fetcher: &fetch.Fetcher{}, Now: time.Now, Settings: Settings{Limits: budget.Limits{MaxObjects: 1}}}
	t.Cleanup(r.Fetcher.CloseIdleConnections)
	if err := os.WriteFile(filepath.Join(repo.dir, "both.yaml"), overlayOf("a", "b").Data, 0o600); err != nil {
		t.Fatal(err)
	}
	repo.git("ada", "add", ".")
	repo.git("ada", "commit", "-q", "-m", "two")
	got, err := r.fetch(t.Context(), source, nil)
	if reason, message := reasonAndMessage(err); reason != fetch.ReasonLimitExceeded {
		t.Fatalf("%s: %s", reason, message)
	}
	if got == nil || got.about.Subject != "two" || got.parsed.Objects != nil {
		t.Errorf("got %+v", got)
	}
}

// The reasons for which there are no keys.
func TestTrust(t *testing.T) {
	private := "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\n"
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "keys", errors.New("no"))
	for name, c := range map[string]struct {
		data   map[string][]byte
		err    error
		reason string
		want   string
	}{
		"no Secret":       {nil, nil, v1alpha1.ReasonSecretInvalid, "there is no Secret hpc/keys: create it"},
		"an empty one":    {map[string][]byte{}, nil, v1alpha1.ReasonSecretInvalid, "Secret hpc/keys: holds no key"},
		"no key":          {map[string][]byte{"ada.pub": []byte("hunter2")}, nil, v1alpha1.ReasonSecretInvalid, `Secret hpc/keys: key "ada.pub" line 1 is no public key`},
		"a private one":   {map[string][]byte{"ada.pub": []byte(private)}, nil, v1alpha1.ReasonSecretInvalid, `key "ada.pub" holds a private key`},
		"not to be read":  {nil, forbidden, v1alpha1.ReasonBindingMissing, "kubectl -n hpc create rolebinding"},
		"the hub is down": {nil, errors.New("refused"), v1alpha1.ReasonApplyFailed, "reading Secret hpc/keys: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.Spec.Verify = &v1alpha1.GitVerify{Mode: v1alpha1.VerifyHead, SecretRef: v1alpha1.LocalReference{Name: "keys"}}
			objects := []client.Object{}
			if c.data != nil {
				objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "keys"}, Data: c.data})
			}
			r := &Reconciler{Client: failing{newHub(t, objects...), c.err}, Namespace: "minifleet-system"}
			_, err := r.trust(t.Context(), source)
			reason, message := reasonAndMessage(err)
			if reason != c.reason || !strings.Contains(message, c.want) || strings.Contains(message, "hunter2") {
				t.Errorf("got %s: %s; want %s with %q", reason, message, c.reason, c.want)
			}
			// The condition says so as well, unless it is the hub's failure.
			setVerified(source, progress{}, err, time.Now())
			if got := conditions.Get(source, v1alpha1.ConditionSourceVerified); (got != nil && got.Reason == c.reason) != isSourceError(err) {
				t.Errorf("the condition is %v", got)
			}
		})
	}
}

// failing answers each read with an error, if there is one.
type failing struct {
	client.Client
	err error
}

func (f failing) Get(ctx context.Context, key types.NamespacedName, obj client.Object, opts ...client.GetOption) error {
	if f.err != nil {
		return f.err
	}
	return f.Client.Get(ctx, key, obj, opts...)
}

// What was applied stays in the status of a source whose next commit is not verified.
func TestSetStatusUnverified(t *testing.T) {
	source := newSource()
	source.Spec.Verify = &v1alpha1.GitVerify{Mode: v1alpha1.VerifyHead}
	source.Status = v1alpha1.GitSourceStatus{Revision: "main@aaaaaaa", Commit: "a", MiniClusters: 3, Commits: []v1alpha1.Commit{{Hash: "a"}}}
	want := *source.Status.DeepCopy()
	want.ObservedGeneration, want.LastAttempted = 1, &v1alpha1.Commit{Hash: "b", Revision: "main@bbbbbbb"}
	setStatus(source, progress{tree: &tree{commit: "b", revision: "main@bbbbbbb"}}, notVerified(v1alpha1.ReasonVerificationFailed, "why"), time.Now())
	got := *source.Status.DeepCopy()
	got.Conditions = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for kind, message := range map[string]string{
		v1alpha1.ConditionReady: "spec.verify: why; revision main@aaaaaaa stays applied", v1alpha1.ConditionSourceVerified: "spec.verify: why",
	} {
		c := conditions.Get(source, kind)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonVerificationFailed || c.Message != message {
			t.Errorf("%s is %+v", kind, c)
		}
	}
	source.Spec.Verify = nil
	setStatus(source, progress{}, &fetch.Error{Reason: fetch.ReasonUnreachable}, time.Now())
	if conditions.Has(source, v1alpha1.ConditionSourceVerified) {
		t.Error("the condition stays without spec.verify")
	}
}

// What SourceVerified says of a Secret goes when that was corrected, even while the repository cannot be read. What it says of a
// commit stays.
func TestVerifiedWhileUnreachable(t *testing.T) {
	unreachable := &fetch.Error{Reason: fetch.ReasonUnreachable, Message: "no answer"}
	for reason, want := range map[string]string{
		v1alpha1.ReasonSecretInvalid: "Unknown Unreachable", v1alpha1.ReasonBindingMissing: "Unknown Unreachable",
		v1alpha1.ReasonInvalidSpec: "Unknown Unreachable", v1alpha1.ReasonVerificationFailed: "False VerificationFailed",
	} {
		source := newSource()
		source.Spec.Verify = &v1alpha1.GitVerify{Mode: v1alpha1.VerifyHead}
		setVerified(source, progress{}, notVerified(reason, "why"), time.Now())
		setVerified(source, progress{}, unreachable, time.Now())
		c := conditions.Get(source, v1alpha1.ConditionSourceVerified)
		if got := string(c.Status) + " " + c.Reason; got != want {
			t.Errorf("after %s: got %s, want %s", reason, got, want)
		}
	}
}
