package controllers_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("A path that holds a kustomization", func() {
	It("is built, keeps what it declared while it cannot be, and is told by name what is refused", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		for _, folder := range []string{"base", "east", "west"} {
			Expect(os.MkdirAll(filepath.Join(r.dir, "sites", folder), 0o750)).To(Succeed())
		}
		const east, west, base = "sites/east/kustomization.yaml", "sites/west/kustomization.yaml", "sites/base/kustomization.yaml"
		site := func(name, size string) string {
			return "resources: [../base]\nnameSuffix: -" + name + "\npatches:\n- target: {kind: MiniCluster}\n  patch: |\n    - {op: replace, path: /spec/size, value: " + size + "}\n"
		}
		const manifest = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: harmless}\nspec: {size: 1, containers: [{image: busybox, command: sleep 1}]}\n"
		now := r.source(ctx)
		Eventually(func() error {
			s := now()
			s.Spec.Paths = []string{"sites/east", "sites/west"}
			return hub.Update(ctx, s)
		}).Should(Succeed())
		r.commit(map[string]string{base: "resources: [a.yaml]\n", "sites/base/a.yaml": manifest, east: site("east", "2"), west: site("west", "3")})
		sizes := func() map[string]int32 {
			var list v1alpha1.FleetMiniClusterList
			Expect(hub.List(ctx, &list, client.InNamespace(w.name))).To(Succeed())
			out := map[string]int32{}
			for i := range list.Items {
				out[list.Items[i].Name] = list.Items[i].Spec.MiniCluster.Size
			}
			return out
		}
		ready := func() string {
			c := meta.FindStatusCondition(now().Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || now().Status.ObservedGeneration != now().Generation {
				return ""
			}
			return string(c.Status) + " " + c.Reason + " " + c.Message
		}
		both := map[string]int32{"harmless-east": 2, "harmless-west": 3}
		Eventually(sizes).Should(Equal(both))
		Eventually(ready).Should(HavePrefix("True Succeeded"))
		f := w.get(ctx, "harmless-east")
		Expect(f.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationSourcePath, east+"#0"))

		By("naming a remote base, in the base that both sites build from")
		r.commit(map[string]string{base: "resources:\n- a.yaml\n- https://git.example.org/other/base?ref=v1\n"})
		Eventually(ready).Should(And(HavePrefix("False ProblemsFound"), ContainSubstring("sites/base/kustomization.yaml:3"),
			ContainSubstring("resources[1]"), ContainSubstring(`"https://git.example.org/other/base?ref=v1" is remote`), ContainSubstring("commit it into this repository")))
		Consistently(sizes).Should(Equal(both))

		By("building one of them again, while the other cannot be built")
		r.commit(map[string]string{base: "resources: [a.yaml]\n", east: site("east", "4"), west: "resource: [../base]\n"})
		Eventually(sizes).Should(Equal(map[string]int32{"harmless-east": 4, "harmless-west": 3}))
		Eventually(ready).Should(And(ContainSubstring(west), ContainSubstring(`unknown field "resource"`), Not(ContainSubstring(east))))

		By("declaring what the hub refuses: the file that it comes from is named")
		r.commit(map[string]string{west: site("west", "3"), "sites/base/a.yaml": strings.Replace(manifest, "size:", "sise:", 1)})
		Eventually(ready).Should(And(HavePrefix("False ProblemsFound"), ContainSubstring("it comes from sites/base/a.yaml")))
		Consistently(sizes).Should(Equal(map[string]int32{"harmless-east": 4, "harmless-west": 3}))

		By("mending all of it, with a site that declares nothing any more")
		r.commit(map[string]string{"sites/base/a.yaml": manifest, east: site("east", "2"), west: "configMapGenerator: [{name: notes, literals: [a=b]}]\n"})
		Eventually(sizes).Should(Equal(map[string]int32{"harmless-east": 2}))
		Eventually(ready).Should(HavePrefix("True Succeeded"))
		Expect(now().Status.Problems).To(ConsistOf(And(HaveField("Path", west), HaveField("Message", ContainSubstring("generates ConfigMap notes-")))))
	})
})
