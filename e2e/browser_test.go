package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// browserTimeout is for all specs of the browser together: they take about two minutes where nothing else runs.
const browserTimeout = 10 * time.Minute

// attemptFailed is in what dashboard/web/e2e/browser.ts prints of an attempt that has failed.
const attemptFailed = ": what was shown is in "

// chromium is where the browser is, or empty. CHROMIUM names it where it is elsewhere.
func chromium() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// The page in a real browser, before the real controller: specs in dashboard/web/e2e drive the browser, and ask this
// process for what happens outside of it.
var _ = Describe("Dashboard", func() {
	It("shows the fleet in a browser", func(ctx SpecContext) {
		root, err := lab.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		web := filepath.Join(root, "dashboard", "web")
		if _, err := exec.LookPath("node"); err != nil {
			Skip("there is no Node.js here, so the page is not built and not tested")
		}
		if _, err := os.Stat(filepath.Join(web, "dist", "index.html")); err != nil {
			Skip("bin/minifleet is built without the page, which needs Node.js 20.19: " + err.Error())
		}
		if chromium() == "" {
			Skip("there is no Chromium here: install it (on Debian: apt-get install chromium), or set CHROMIUM to its path")
		}
		w, hidden := newWorld(ctx), newWorld(ctx)
		control := httptest.NewServer(controlOf(ctx, w, hidden))
		DeferCleanup(control.Close)
		settings, err := json.Marshal(map[string]any{
			"url": dashboardURL, "control": control.URL, "chromium": chromium(),
			"namespace": w.name, "hidden": hidden.name, "members": slices.Sorted(maps.Keys(memberLabels)),
			"tokens": map[string]string{
				"admin":  w.person(ctx, "admin", "", adminRules),
				"writer": w.person(ctx, "writer", "minifleet-editor", nil),
				"reader": w.person(ctx, "reader", "minifleet-viewer", nil),
				"nobody": w.person(ctx, "nobody", "", nil),
				// One whose rights a spec takes away.
				"guest": w.person(ctx, "guest", "minifleet-viewer", nil),
			},
		})
		Expect(err).NotTo(HaveOccurred())
		specs := strings.Fields(cmp.Or(os.Getenv("MINIFLEET_BROWSER_SPECS"), "login.spec live.spec rights.spec"))
		if slices.Equal(specs, []string{"all"}) {
			specs = nil
		}
		cmd := exec.CommandContext(ctx, "npm", slices.Concat([]string{"run", "--silent", "e2e", "--"}, specs)...)
		cmd.Dir = web
		cmd.Env = append(os.Environ(), "MINIFLEET_E2E="+string(settings))
		// Node and the browser are its children, and end with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		output, err := cmd.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		cmd.Stderr = cmd.Stdout
		Expect(cmd.Start()).To(Succeed())
		var lines []string
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines = append(lines, scanner.Text())
			GinkgoWriter.Println(scanner.Text())
		}
		err = cmd.Wait()
		if err != nil || slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, attemptFailed) }) {
			AddReportEntry("output of the browser's specs", strings.Join(lines, "\n")) // also of one that another attempt has passed
		}
		if err != nil {
			Fail("the browser's specs have failed: " + err.Error())
		}
	}, NodeTimeout(browserTimeout))
})

// adminRules are everything that the dashboard shows and does, in all namespaces.
var adminRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"minifleet.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch"}},
}

// commitRead is the commit that the world's source has read last.
func (w *world) commitRead(ctx context.Context) string {
	var s v1alpha1.GitSource
	_ = hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: w.name}, &s)
	return s.Status.Commit
}

// person makes a service account in the world's namespace and returns a token of it. It has a ClusterRole in that
// namespace alone, or rules in all namespaces, or no rights.
func (w *world) person(ctx context.Context, name, role string, rules []rbacv1.PolicyRule) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	Expect(hub.Create(ctx, account)).To(Succeed())
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: name}}
	if role != "" {
		Expect(hub.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})).To(Succeed())
	}
	if len(rules) > 0 {
		meta := metav1.ObjectMeta{Name: w.name + "-" + name}
		Expect(hub.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})).To(Succeed())
		Expect(hub.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		})).To(Succeed())
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	Expect(hub.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// controlOf answers requests of specs that run in another process, one at a time. Each is a POST of JSON; what fails is
// answered with 500 and the reason.
func controlOf(ctx context.Context, w, hidden *world) http.Handler {
	mux := &controlMux{ServeMux: http.NewServeMux()}
	worlds := map[string]*world{w.name: w, hidden.name: hidden}
	handle(mux, "/commit", func(in struct {
		Namespace, Message string
		Files              map[string]string
	}) (any, error) {
		of := worlds[in.Namespace]
		return nil, InterceptGomegaFailure(func() {
			of.commit(in.Message, in.Files)
			// What is applied is of the latest commit, so the next one waits for it.
			hash := strings.TrimSpace(run(of.dir, "git", "rev-parse", "HEAD"))
			Eventually(of.commitRead).WithContext(ctx).Should(Equal(hash))
		})
	})
	// How many Jobs of this name members have made, as their audit logs tell.
	handle(mux, "/jobs", func(in struct{ Namespace, Name string }) (any, error) {
		var made int
		of := worlds[in.Namespace]
		err := InterceptGomegaFailure(func() { made = of.jobsMade(in.Name) })
		return made, err
	})
	handle(mux, "/kubectl", func(in struct {
		Namespace string
		Args      []string
	}) (any, error) {
		path, args := worlds[in.Namespace].kubectlCommand(in.Args)
		out, err := try("", path, args...)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		return out, nil
	})
	handle(mux, "/member", func(in struct{ Name, Do string }) (any, error) {
		c := fleet.Cluster(in.Name)
		switch in.Do {
		case "pause":
			return nil, c.PauseAPIServer()
		case "resume":
			return nil, c.ResumeAPIServer()
		case "stop":
			return nil, c.StopAPIServer()
		case "start":
			return nil, c.StartAPIServer(ctx)
		default:
			return nil, fmt.Errorf("%q is nothing that can be done with a member", in.Do)
		}
	})
	handle(mux, "/release", func(in struct {
		Member, Namespace, Selector string
		ExitCode                    int
	}) (any, error) {
		return fleet.Cluster(in.Member).Release(ctx, in.Namespace, in.Selector, in.ExitCode)
	})
	handle(mux, "/log", func(in struct {
		Member string
		Lines  []string
	}) (any, error) {
		return nil, fleet.Cluster(in.Member).WriteLog(in.Lines...)
	})
	handle(mux, "/controller", func(in struct{ Do string }) (any, error) {
		if in.Do == "stop" {
			return nil, controller.Kill()
		}
		return nil, controller.Start()
	})
	handle(mux, "/people", func(in struct {
		Name  string
		Allow bool
	}) (any, error) {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: in.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: in.Name}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "minifleet-viewer"},
		}
		if in.Allow {
			return nil, hub.Create(ctx, binding)
		}
		return nil, client.IgnoreNotFound(hub.Delete(ctx, binding))
	})
	return mux
}

// controlMux is a ServeMux whose handlers exclude each other: clones of repositories and Gomega's handler of failures are
// shared.
type controlMux struct {
	*http.ServeMux
	lock sync.Mutex
}

func handle[In any](mux *controlMux, path string, do func(In) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		defer GinkgoRecover()
		mux.lock.Lock()
		defer mux.lock.Unlock()
		var in In
		err := json.NewDecoder(r.Body).Decode(&in)
		var out any
		if err == nil {
			out, err = do(in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"result": out})
	})
}
