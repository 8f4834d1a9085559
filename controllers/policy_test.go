package controllers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
)

// dangerous makes a FleetMiniCluster ask for a path of the node and for all of its rights.
func dangerous(f *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	c := &f.Spec.MiniCluster.Containers[0]
	c.SecurityContext.Privileged = ptr.To(true)
	c.Volumes = map[string]fluxv1alpha2.ContainerVolume{"data": {HostPath: "/data", Path: "/data"}}
	return f
}

// dangerousFile is a MiniCluster in Git that does the same, whose pods run until they are released.
func dangerousFile(name, command string) string {
	return `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: ` + name + `
spec:
  size: 1
  pod:
    annotations: {` + lab.AskHold + `: "true"}
  containers:
    - image: example.org/app
      command: ` + command + `
      resources: {limits: {cpu: 1000m, memory: 1024Mi}}
      securityContext: {privileged: true}
      volumes:
        data: {path: /data, hostPath: /data}
`
}

var harmlessFile = strings.NewReplacer("privileged: true", "privileged: false", "hostPath: /data", "emptyDir: true").Replace(dangerousFile("harmless", `"true"`))

// setAllow sets or removes the annotation of the namespace.
func (w *world) setAllow(ctx context.Context, allow string) {
	GinkgoHelper()
	var ns corev1.Namespace
	Expect(hub.Get(ctx, client.ObjectKey{Name: w.name}, &ns)).To(Succeed())
	patch := client.MergeFrom(ns.DeepCopy())
	ns.Annotations = map[string]string{v1alpha1.AnnotationAllow: allow}
	if allow == "" {
		ns.Annotations = nil
	}
	Expect(hub.Patch(ctx, &ns, patch)).To(Succeed())
}

// ready is STATUS REASON of the Ready condition.
func (w *world) ready(ctx context.Context, name string) string {
	return statusReason(w.get(ctx, name).Status.Conditions)
}

// says is the message of the Ready condition.
func says(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// change edits a FleetMiniCluster.
func (w *world) change(ctx context.Context, name string, edits ...func(*v1alpha1.FleetMiniCluster)) {
	GinkgoHelper()
	Eventually(func() error {
		f := w.get(ctx, name)
		for _, edit := range edits {
			edit(f)
		}
		return hub.Update(ctx, f)
	}).Should(Succeed())
}

var quotedOrPlain = regexp.MustCompile(`'[^']*'|\S+`)

// follow does what a message says: it runs the kubectl command at its end.
func follow(message string) {
	GinkgoHelper()
	at := strings.LastIndex(message, "kubectl ")
	Expect(at).To(BeNumerically(">", 0), message)
	var args []string
	for _, word := range quotedOrPlain.FindAllString(message[at:], -1)[1:] {
		args = append(args, strings.Trim(word, "'"))
	}
	kubectl("", args...)
}

var _ = Describe("The policy for dangerous fields", func() {
	It("refuses a FleetMiniCluster until its namespace allows what it needs, and lets what is live go on when that is withdrawn", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Expect(hub.Create(ctx, dangerous(w.fmc("root", held)))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("False PolicyDenied OutOfSync Missing 0/0"))
		f := w.get(ctx, "root")
		Expect(says(f.Status.Conditions)).To(Equal(
			"not allowed: spec.miniCluster.containers[0].volumes[data].hostPath: mounts /data of the node, which takes the permission HostPath; " +
				"spec.miniCluster.containers[0].securityContext.privileged: makes the container root on the node, which takes the permission Privileged. " +
				"Remove what is named, or allow it in this namespace of the hub: kubectl annotate --overwrite namespace " + w.name + " minifleet.dev/allow=HostPath,Privileged"))
		Expect(meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionStalled)).To(HaveField("Reason", v1alpha1.ReasonPolicyDenied))
		Expect(f.Status.Runs).To(BeEmpty())
		Eventually(w.events).WithArguments(ctx, "root").Should(ContainElement(v1alpha1.ReasonPolicyDenied))
		Expect(jobsMade("alpine", w.name)).To(BeZero())

		By("allowing a part, and misspelling the other")
		w.setAllow(ctx, "HostPath,priviledged")
		Eventually(func() string { return says(w.get(ctx, "root").Status.Conditions) }).Should(And(
			HavePrefix("not allowed: spec.miniCluster.containers[0].securityContext.privileged: "), ContainSubstring("words that are no permission: priviledged")))
		Expect(jobsMade("alpine", w.name)).To(BeZero())

		By("allowing both, as the first message said")
		follow(says(f.Status.Conditions))
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(meta.FindStatusCondition(w.get(ctx, "root").Status.Conditions, v1alpha1.ConditionStalled)).To(BeNil())
		first := job(ctx, "alpine", w.name, "root")
		Expect(*first.Spec.Template.Spec.Containers[0].SecurityContext.Privileged).To(BeTrue())

		By("withdrawing it while the run is live")
		w.setAllow(ctx, "HostPath")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Expect(w.on(ctx, "root", "a")).To(Equal("Synced Progressing"), "the run is still told")
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.OnChange = v1alpha1.Replace
			f.Spec.MiniCluster.Containers[0].Command = "false"
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationRerunAt, "now")
		})
		Eventually(func() bool { f := w.get(ctx, "root"); return f.Status.ObservedGeneration == f.Generation }).Should(BeTrue())
		Consistently(func() *batchv1.Job { return job(ctx, "alpine", w.name, "root") }).Should(And(
			HaveField("UID", first.UID), HaveField("DeletionTimestamp", BeNil()), HaveField("Spec.Suspend", HaveValue(BeFalse()))))
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "job-name=root", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() v1alpha1.RunState { return w.get(ctx, "root").Status.Runs[0].State }).Should(Equal(v1alpha1.RunSucceeded))
		Expect(w.ready(ctx, "root")).To(Equal("False PolicyDenied"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1), "no new run begins")

		By("allowing it again")
		w.setAllow(ctx, "HostPath,Privileged")
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})

	It("does not start a run that was in the ledger before the allowance was withdrawn, nor resume one", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.setAllow(ctx, "HostPath,Privileged")
		Expect(admins["alpine"].Create(ctx, w.lenient())).To(Succeed())
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "none"}}
		quota.Spec.Hard = corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
		Expect(admins["alpine"].Create(ctx, quota)).To(Succeed())
		Expect(hub.Create(ctx, dangerous(w.fmc("root", held)))).To(Succeed())
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False ApplyFailed"))
		Expect(w.get(ctx, "root").Status.Runs).To(ContainElement(HaveField("State", v1alpha1.RunStarting)))

		w.setAllow(ctx, "")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Expect(admins["alpine"].Delete(ctx, quota)).To(Succeed())
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) { metav1.SetMetaDataAnnotation(&f.ObjectMeta, "touched", "again") })
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(BeZero())
		w.setAllow(ctx, "HostPath,Privileged")
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("True Synced Synced Progressing 1/1"))

		suspended := func() *bool { return job(ctx, "alpine", w.name, "root").Spec.Suspend }
		w.setAllow(ctx, "")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true })
		Eventually(suspended).Should(HaveValue(BeTrue()), "pods may be ended")
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = false })
		Consistently(suspended).Should(HaveValue(BeTrue()), "and not started")
		w.setAllow(ctx, "HostPath,Privileged")
		Eventually(suspended).Should(HaveValue(BeFalse()))
	})

	It("holds for Git: a source's allowances are for what it declares, as it declares it", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"root.yaml": dangerousFile("root", `"true"`), "harmless.yaml": harmlessFile})
		source := r.source(ctx)

		By("allowing nothing")
		Eventually(w.line).WithArguments(ctx, "harmless").Should(Equal("True Synced Synced Progressing 1/1"))
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("False ProblemsFound"))
		remedy := "Remove it, or allow it for this source: kubectl -n " + w.name + ` patch gitsource fleet --type merge -p '{"spec":{"allow":["HostPath","Privileged"]}}'`
		Expect(source().Status.Problems).To(Equal([]v1alpha1.FileProblem{
			{Path: "root.yaml", Line: 1, Object: "MiniCluster/root", Field: "spec.containers[0].volumes[data].hostPath",
				Message: "mounts /data of the node, which takes the permission HostPath. " + remedy},
			{Path: "root.yaml", Line: 1, Object: "MiniCluster/root", Field: "spec.containers[0].securityContext.privileged",
				Message: "makes the container root on the node, which takes the permission Privileged. " + remedy},
		}))
		Expect(says(w.get(ctx, "root").Status.Conditions)).To(HaveSuffix(strings.TrimPrefix(remedy, "Remove it")), "the FleetMiniCluster says the same")
		Expect(jobsMade("alpine", w.name)).To(Equal(1))

		By("allowing it, as the problem said")
		follow(remedy)
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("True Synced Synced Progressing 1/1"))
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True Succeeded"))
		Expect(source().Status.Needs).To(ConsistOf(And(HaveField("Name", "root"), HaveField("Permissions", []v1alpha1.Permission{"HostPath", "Privileged"}))))
		first := job(ctx, "alpine", w.name, "root")

		By("putting the source's label on something that it does not declare, while it is suspended")
		w.suspendSource(ctx, true) // else it would prune that
		forged := dangerous(w.fmc("forged", held))
		forged.Labels = map[string]string{v1alpha1.LabelSource: "fleet"}
		forged.Annotations = w.get(ctx, "root").Annotations
		Expect(hub.Create(ctx, forged)).To(Succeed())
		Eventually(w.ready).WithArguments(ctx, "forged").Should(Equal("False PolicyDenied"))
		Expect(says(w.get(ctx, "forged").Status.Conditions)).To(ContainSubstring("GitSource " + w.name + "/fleet does not declare this MiniCluster as it is here"))

		By("editing what the source made")
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.OnChange = v1alpha1.Replace
			f.Spec.MiniCluster.Containers[0].Image = "example.org/evil"
		})
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(2))
		Expect(job(ctx, "alpine", w.name, "root")).To(And(HaveField("UID", first.UID), HaveField("DeletionTimestamp", BeNil())))
		w.suspendSource(ctx, false)
		Eventually(w.line).WithArguments(ctx, "root").Should(Equal("True Synced Synced Progressing 1/1"))

		By("withdrawing the allowance while the repository is down")
		Expect(r.server.Stop()).To(Succeed())
		Eventually(func() error { s := source(); s.Spec.Allow = nil; return hub.Update(ctx, s) }).Should(Succeed())
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Consistently(func() *batchv1.Job { return job(ctx, "alpine", w.name, "root") }).Should(And(HaveField("UID", first.UID), HaveField("DeletionTimestamp", BeNil())))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})

	It("never denies for a moment what a source declares and allows, through changes and files that break", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"root.yaml": dangerousFile("root", "one"), "other.yaml": dangerousFile("other", "one")})
		source := r.source(ctx, v1alpha1.Permissions()...)
		needed := func() []string {
			var names []string
			for _, n := range source().Status.Needs {
				names = append(names, n.Name)
			}
			return names
		}
		command := func(name string) func() string {
			return func() string {
				f := w.get(ctx, name)
				if f.UID == "" {
					return ""
				}
				return f.Spec.MiniCluster.Containers[0].Command + " " + statusReason(f.Status.Conditions)
			}
		}
		Eventually(command("root")).Should(Equal("one True Synced"))
		for _, next := range []string{"two", "three"} {
			r.commit(map[string]string{"root.yaml": dangerousFile("root", next)})
			Eventually(command("root")).Should(Equal(next + " False WaitingForCompletion"))
		}
		Eventually(needed).Should(ConsistOf("root", "other"), "of what was declared before nothing is left")

		By("breaking a file: what it declared stays on the hub, and stays allowed")
		r.commit(map[string]string{"other.yaml": dangerousFile("other", "[}")})
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("False ProblemsFound"))
		Expect(needed()).To(ConsistOf("root", "other"))
		w.change(ctx, "other", func(f *v1alpha1.FleetMiniCluster) { metav1.SetMetaDataAnnotation(&f.ObjectMeta, "touched", "again") })
		Consistently(command("other")).Should(Equal("one True Synced"))

		By("removing it: nobody speaks for it any more")
		r.commit(map[string]string{"other.yaml": "", "harmless.yaml": harmlessFile})
		Eventually(w.exists).WithArguments(ctx, "other").Should(BeFalse())
		Eventually(needed).Should(ConsistOf("root"))

		var all eventsv1.EventList
		Expect(hub.List(ctx, &all, client.InNamespace(w.name))).To(Succeed())
		Expect(all.Items).NotTo(ContainElement(HaveField("Reason", v1alpha1.ReasonPolicyDenied)))
	})

	It("takes the verb allow to let a source use permissions, where config/policy is installed", func(ctx SpecContext) {
		w := newWorld(ctx)
		root, err := lab.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		var documents []string
		for _, document := range strings.Split(kubectl("", "kustomize", filepath.Join(root, "config", "default")), "\n---\n") {
			if strings.Contains(document, "\nkind: ValidatingAdmissionPolicy") {
				documents = append(documents, document)
			}
		}
		Expect(documents).To(HaveLen(4), "two policies, each with its binding")
		rendered := strings.Join(documents, "\n---\n")
		kubectl(rendered, "apply", "--server-side", "-f", "-")
		DeferCleanup(func() { kubectl(rendered, "delete", "-f", "-") })

		// A tenant who may do with MiniFleet's objects whatever the role edit may with others, and more.
		editor := w.as(ctx, "editor", "create", "get", "list", "watch", "update", "patch", "delete", "deletecollection")
		allower := w.as(ctx, "allower", "create", "get", "update", "allow")
		source := func(name string, allow ...v1alpha1.Permission) *v1alpha1.GitSource {
			return &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
				Spec: v1alpha1.GitSourceSpec{URL: "https://127.0.0.1:1/fleet", Allow: allow, Suspend: true,
					Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute}}}
		}
		refused := MatchError(ContainSubstring("you need the verb allow on gitsources in namespace " + w.name))
		// The policy takes effect some time after it was written.
		Eventually(func() error { return editor.Create(ctx, source("a", "HostPath"), client.DryRunAll) }).Should(refused)
		Expect(editor.Create(ctx, source("a"))).To(Succeed())
		Expect(allower.Create(ctx, source("b", "HostPath", "RunAsRoot"))).To(Succeed())

		edit := func(c client.Client, change func(*v1alpha1.GitSourceSpec)) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				s := source("b")
				Expect(c.Get(ctx, client.ObjectKeyFromObject(s), s)).To(Succeed())
				change(&s.Spec)
				return c.Update(ctx, s)
			})
		}
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Allow = append(s.Allow, "Privileged") })).To(refused)
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.URL = "https://127.0.0.1:1/mine" })).To(refused)
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Ref = &v1alpha1.GitRef{Branch: "mine"} })).To(refused)
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Path = "mine" })).To(refused)
		for _, change := range guardedChanges {
			Expect(edit(editor, change)).To(refused)
		}
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) {
			s.Interval.Duration, s.Timeout.Duration, s.Prune, s.Suspend = time.Hour, time.Second, ptr.To(false), false
		})).To(Succeed())
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Allow = []v1alpha1.Permission{"RunAsRoot"} })).To(Succeed())
		Expect(edit(allower, func(s *v1alpha1.GitSourceSpec) { s.Path = "theirs" })).To(Succeed())
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Allow = nil })).To(Succeed())
		Expect(edit(editor, func(s *v1alpha1.GitSourceSpec) { s.Path = "mine" })).To(Succeed(), "a source that allows nothing is free to edit")

		By("deleting a source, to create one of its name that allows as much")
		Expect(allower.Create(ctx, source("c", "HostPath"))).To(Succeed())
		Expect(editor.Delete(ctx, source("c"))).To(Succeed())
		Eventually(func() error { return editor.Create(ctx, source("c", "HostPath")) }).Should(refused)

		By("writing what Git is said to declare, and as much of the status as one likes besides")
		status := func(c client.Client, change func(*v1alpha1.GitSourceStatus)) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				s := source("b")
				Expect(c.Get(ctx, client.ObjectKeyFromObject(s), s)).To(Succeed())
				change(&s.Status)
				return c.Status().Update(ctx, s)
			})
		}
		declare := func(s *v1alpha1.GitSourceStatus) {
			s.Needs = []v1alpha1.DeclaredNeed{{Name: "root", Digest: strings.Repeat("0", 64), Permissions: []v1alpha1.Permission{"HostPath"}}}
		}
		undeclared := MatchError(ContainSubstring("status.needs: says what Git declares, and is for MiniFleet's controller to write"))
		Expect(status(editor, declare)).To(undeclared)
		Expect(status(allower, declare)).To(undeclared, "the verb allow is not declare")
		Expect(status(editor, func(s *v1alpha1.GitSourceStatus) { s.Commit = "forged" })).To(Succeed())
		Expect(status(w.as(ctx, "declarer", "get", "update", "declare"), declare)).To(Succeed(), "as the controller may")
	})
})

// guardedChanges are edits of a GitSource that allows permissions which take the verb allow, besides those of what is read.
var guardedChanges = []func(*v1alpha1.GitSourceSpec){
	func(s *v1alpha1.GitSourceSpec) { s.DefaultPlacement = &v1alpha1.LocalReference{Name: "mine"} },
	func(s *v1alpha1.GitSourceSpec) { s.SecretRef = &v1alpha1.LocalReference{Name: "mine"} },
	func(s *v1alpha1.GitSourceSpec) {
		s.Interval.Duration, s.DefaultPlacement = time.Hour, &v1alpha1.LocalReference{Name: "mine"}
	},
}

// as is the hub for a user who has these verbs on all of MiniFleet's objects in the world's namespace.
func (w *world) as(ctx context.Context, name string, verbs ...string) client.Client {
	GinkgoHelper()
	user := w.name + "-" + name
	named := metav1.ObjectMeta{Namespace: w.name, Name: name}
	Expect(hub.Create(ctx, &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: verbs}}})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
	cfg, err := labs.Cluster("hub").RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// suspendSource sets spec.suspend of the world's GitSource, and waits until it is so.
func (w *world) suspendSource(ctx context.Context, suspend bool) {
	GinkgoHelper()
	key := client.ObjectKey{Namespace: w.name, Name: "fleet"}
	var s v1alpha1.GitSource
	Eventually(func() error {
		if err := hub.Get(ctx, key, &s); err != nil {
			return err
		}
		s.Spec.Suspend = suspend
		return hub.Update(ctx, &s)
	}).Should(Succeed())
	Eventually(func() bool {
		Expect(hub.Get(ctx, key, &s)).To(Succeed())
		return s.Status.ObservedGeneration == s.Generation
	}).Should(BeTrue())
}

// repository is a Git repository of a world, on a server of its own.
type repository struct {
	w      *world
	server *lab.GitServer
	dir    string // of a clone
	trust  []byte // the certificate of the server
}

func (w *world) newRepository(ctx context.Context) *repository {
	GinkgoHelper()
	dir := filepath.Join(workDir, "git", w.name)
	server, err := lab.NewGitServer(filepath.Join(dir, "server"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Stop)
	Expect(server.CreateRepo("fleet")).To(Succeed())
	trust, err := server.StartTLS() // plain HTTP is refused where anything is allowed
	Expect(err).NotTo(HaveOccurred())
	r := &repository{w: w, server: server, dir: filepath.Join(dir, "clone"), trust: trust}
	r.git(dir, "clone", "-q", server.URL("fleet"), r.dir)
	Expect(hub.Create(ctx, &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "all"},
		Spec:       v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"world": w.name}}},
	})).To(Succeed())
	return r
}

func (r *repository) git(dir string, args ...string) {
	GinkgoHelper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// commit writes files, or removes those that are given as empty, and pushes.
func (r *repository) commit(files map[string]string) {
	GinkgoHelper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if content == "" {
			Expect(os.Remove(path)).To(Succeed())
			continue
		}
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	r.git(r.dir, "add", "-A")
	r.git(r.dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "change")
	r.git(r.dir, "push", "-q", "origin", "HEAD")
}

// source makes the GitSource of the repository, called fleet, and returns what reads it.
func (r *repository) source(ctx context.Context, allow ...v1alpha1.Permission) func() *v1alpha1.GitSource {
	GinkgoHelper()
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: r.w.name, Name: "fleet"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.w.name, Name: "git"}, Data: map[string][]byte{v1alpha1.GitCAKey: r.trust}}
	Expect(hub.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, secret)) })
	s.Spec = v1alpha1.GitSourceSpec{
		URL: r.server.TLSURL("fleet"), SecretRef: &v1alpha1.LocalReference{Name: "git"}, Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: 10 * time.Second},
		DefaultPlacement: &v1alpha1.LocalReference{Name: "all"}, Allow: slices.Clone(allow),
	}
	Expect(hub.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, s)) })
	return func() *v1alpha1.GitSource {
		var now v1alpha1.GitSource
		if err := hub.Get(ctx, client.ObjectKeyFromObject(s), &now); err != nil {
			return &v1alpha1.GitSource{}
		}
		return &now
	}
}
