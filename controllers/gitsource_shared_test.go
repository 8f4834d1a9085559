package controllers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const suspendedFile = `apiVersion: minifleet.dev/v1alpha1
kind: FleetMiniCluster
metadata: {name: %s}
spec:
  suspend: true
  placementRef: {name: all}
  miniCluster:
    size: %d
    containers:
    - image: ghcr.io/example/app
`

var _ = Describe("Sources of one repository", func() {
	It("share its download, and write what has changed alone", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		Expect(os.MkdirAll(filepath.Join(r.dir, "a"), 0o755)).To(Succeed())
		Expect(os.MkdirAll(filepath.Join(r.dir, "b"), 0o755)).To(Succeed())
		files, names := map[string]string{}, []string{}
		for i := range 20 {
			folder := []string{"a", "b"}[i%2]
			name := fmt.Sprintf("%s-%02d", folder, i)
			names = append(names, name)
			files[filepath.Join(folder, name+".yaml")] = fmt.Sprintf(suspendedFile, name, 1)
		}
		r.commit(files)
		downloads := func() int {
			n := 0
			for _, request := range r.server.Requests() {
				if request.Service == "fetch" {
					n++
				}
			}
			return n
		}
		r.server.ResetRequests()
		for _, folder := range []string{"a", "b"} {
			gitSource(ctx, w.name, folder, r.server.URL("fleet"), func(s *v1alpha1.GitSourceSpec) { s.Paths = []string{folder} })
		}
		applied := func(folder string) string {
			var s v1alpha1.GitSource
			_ = hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: folder}, &s)
			return fmt.Sprint(s.Status.MiniClusters, " of ", s.Status.Commit)
		}
		latest := func() string { return "10 of " + headOf(r) }
		for _, folder := range []string{"a", "b"} {
			Eventually(applied).WithArguments(folder).Should(Equal(latest()))
		}
		Expect(downloads()).To(Equal(1), "downloads for two sources: %v", r.server.Requests())

		By("changing one file of one of them")
		revisions := func() map[string]string {
			out := map[string]string{}
			for _, name := range names {
				f := w.get(ctx, name)
				out[name] = fmt.Sprint(f.Generation, " ", f.Annotations[v1alpha1.AnnotationSourceRevision])
			}
			return out
		}
		before := revisions()
		r.commit(map[string]string{"a/a-04.yaml": fmt.Sprintf(suspendedFile, "a-04", 2)})
		r.server.ResetRequests()
		for _, folder := range []string{"a", "b"} {
			now := &v1alpha1.GitSource{}
			Eventually(func() error {
				if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: folder}, now); err != nil {
					return err
				}
				now.SetAnnotations(map[string]string{v1alpha1.AnnotationReconcileAt: "now"})
				return hub.Update(ctx, now)
			}).Should(Succeed())
		}
		for _, folder := range []string{"a", "b"} {
			Eventually(applied).WithArguments(folder).Should(Equal(latest()))
		}
		Expect(downloads()).To(Equal(1), "downloads for two sources: %v", r.server.Requests())
		Expect(r.server.Requests()).To(ContainElement(HaveField("Service", "refs")))
		after := revisions()
		Expect(after["a-04"]).NotTo(Equal(before["a-04"]))
		delete(before, "a-04")
		delete(after, "a-04")
		Expect(after).To(Equal(before))
	})
})

// headOf is the commit that a repository's clone has checked out.
func headOf(r *repository) string {
	GinkgoHelper()
	cmd := exec.Command("git", "rev-parse", "HEAD")
	cmd.Dir = r.dir
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}
