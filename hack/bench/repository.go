package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/wait"
)

// fetchAnnotation on a GitSource makes it fetch its repository at once, as any change of annotations does.
const fetchAnnotation = "bench.minifleet.dev/fetch"

// repository is a Git repository, a clone of it, and the GitSource that follows it.
type repository struct {
	fleet *fleet
	name  string
	clone string
	// pushed is when the last push began.
	pushed time.Time
}

// pace is between two pushes: the hub reads a repository once in a second for its webhooks, after five at once.
const pace = 1200 * time.Millisecond

// newRepository makes a repository with one commit that declares nothing, and waits until the hub has seen it.
// The GitSource fetches once an hour: the hub is told of each push.
func (f *fleet) newRepository(ctx context.Context, name string) (*repository, error) {
	r := &repository{fleet: f, name: name, clone: filepath.Join(f.dir, "clones", name)}
	if err := f.git.CreateRepo(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.clone, 0o755); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"remote", "add", "origin", f.git.URL(name)},
		{"config", "user.name", "bench"}, {"config", "user.email", "bench@minifleet.invalid"},
		{"config", "gc.auto", "0"}, {"config", "http.proxy", ""},
	} {
		if err := r.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	if err := r.push(ctx, map[string]string{"README.md": "MiniClusters to measure with.\n"}); err != nil {
		return nil, err
	}
	source := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: name},
		Spec: v1alpha1.GitSourceSpec{
			URL: f.git.URL(name), Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 10 * time.Minute},
			DefaultPlacement: &v1alpha1.LocalReference{Name: placementName},
		},
	}
	if err := f.create(ctx, source); err != nil {
		return nil, err
	}
	return r, f.eventually(ctx, "the first fetch of the repository", func(ctx context.Context) (bool, error) {
		err := f.hub.Get(ctx, client.ObjectKeyFromObject(source), source)
		return source.Status.Commit != "", err
	})
}

// push commits files, given by path, and pushes. It waits until the hub reads the repository as soon as it is told.
func (r *repository) push(ctx context.Context, files map[string]string) error {
	if err := wait.Pause(ctx, time.Until(r.pushed.Add(pace))); err != nil {
		return err
	}
	r.pushed = time.Now()
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(r.clone, path), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := r.git(ctx, "add", "-A"); err != nil {
		return err
	}
	if err := r.git(ctx, "commit", "--quiet", "--message=Measure"); err != nil {
		return err
	}
	return r.git(ctx, "push", "--quiet", "origin", "HEAD:main")
}

// fetch makes the GitSource fetch at once.
func (r *repository) fetch(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, fetchAnnotation, time.Now().UnixNano())
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: r.name}}
	return r.fleet.hub.Patch(ctx, source, client.RawPatch(types.MergePatchType, patch))
}

// hook gives the GitSource a receiver, and returns what calls it as GitHub does after a push.
func (r *repository) hook(ctx context.Context) (call func(context.Context) error, err error) {
	const token = "of the bench and of nobody else"
	key := client.ObjectKey{Namespace: fleetNamespace, Name: r.name}
	if err := r.fleet.create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-webhook"},
		Data:       map[string][]byte{v1alpha1.ReceiverTokenKey: []byte(token)},
	}); err != nil {
		return nil, err
	}
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	patch := fmt.Appendf(nil, `{"spec":{"receiver":{"type":"github","secretRef":{"name":%q}}}}`, key.Name+"-webhook")
	if err := r.fleet.hub.Patch(ctx, source, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, err
	}
	err = r.fleet.eventually(ctx, "the path of the webhook", func(ctx context.Context) (bool, error) {
		err := r.fleet.hub.Get(ctx, key, source)
		return source.Status.WebhookPath != "", err
	})
	if err != nil {
		return nil, err
	}
	url := r.fleet.receiverURL + source.Status.WebhookPath
	return func(ctx context.Context) error { return postPush(ctx, url, token) }, nil
}

// postPush tells of a push to the branch main.
func postPush(ctx context.Context, url, token string) error {
	const body = `{"ref":"refs/heads/main","repository":{"default_branch":"main"}}`
	mac := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(mac, body) // a hash takes everything
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("the webhook was answered with %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

func (r *repository) git(ctx context.Context, args ...string) error {
	_, err := runGit(ctx, r.clone, args...)
	return err
}

// runGit runs git in a directory, without the user's and the machine's configuration.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"}
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
