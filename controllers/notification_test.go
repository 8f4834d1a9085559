package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

// secretAddress and secretKey are in no other place than a Secret.
const (
	secretAddress = "canary-of-an-address"
	secretKey     = "canary-of-a-signing-key-0123456789"
)

// inbox is what messages are sent to.
type inbox struct {
	url string

	mu    sync.Mutex
	told  []string            // TYPE NAME, in the order of arrival
	ids   map[string][]string // the ids of the messages, by that
	wrong []string            // what is wrong with them
	on    func(told string)   // called once a message was received, and before it is answered
}

func newInbox() *inbox {
	GinkgoHelper()
	in := &inbox{ids: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(in.receive))
	DeferCleanup(server.Close)
	in.url = server.URL + "/" + secretAddress
	return in
}

func (in *inbox) receive(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body notify.Body
	err := json.Unmarshal(raw, &body)
	id := r.Header.Get(notify.HeaderID)
	seconds, _ := strconv.ParseInt(r.Header.Get(notify.HeaderTimestamp), 10, 64)
	signature := notify.Sign([]byte(secretKey), id, time.Unix(seconds, 0), raw)
	told := body.Type + " " + body.Data.Name
	in.mu.Lock()
	if err != nil || signature != r.Header.Get(notify.HeaderSignature) || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		in.wrong = append(in.wrong, string(raw))
	}
	in.told = append(in.told, told)
	in.ids[told] = append(in.ids[told], id)
	on := in.on
	in.mu.Unlock()
	if on != nil {
		on(told)
	}
	w.WriteHeader(http.StatusAccepted)
}

func (in *inbox) all() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	Expect(in.wrong).To(BeEmpty(), "messages that are not signed")
	return append([]string{}, in.told...)
}

// when calls something once a message arrives.
func (in *inbox) when(message string, do func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var once sync.Once
	in.on = func(told string) {
		if told == message {
			once.Do(do)
		}
	}
}

func (w *world) notification(ctx context.Context, name, url string, change ...func(*v1alpha1.NotificationSpec)) {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Data: map[string][]byte{
		v1alpha1.NotificationAddressKey: []byte(url), v1alpha1.NotificationHMACKey: []byte(secretKey),
	}}
	n := &v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	n.Spec = v1alpha1.NotificationSpec{Type: v1alpha1.NotifyWebhook, SecretRef: &v1alpha1.LocalReference{Name: name}}
	for _, f := range change {
		f(&n.Spec)
	}
	put(ctx, hub, secret, n)
	DeferCleanup(func(ctx SpecContext) {
		for _, o := range []client.Object{n, secret} {
			Expect(client.IgnoreNotFound(hub.Delete(ctx, o))).To(Succeed())
		}
	})
}

func (w *world) notificationNow(ctx context.Context, name string) *v1alpha1.Notification {
	var n v1alpha1.Notification
	if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: name}, &n); err != nil {
		return &v1alpha1.Notification{}
	}
	return &n
}

// notificationState is STATUS REASON MESSAGE of Ready.
func (w *world) notificationState(ctx context.Context, name string) string {
	c := w.notificationNow(ctx, name).Status.Conditions
	return statusReason(c) + " " + says(c)
}

func telling(events ...v1alpha1.NotificationEvent) func(*v1alpha1.NotificationSpec) {
	return func(s *v1alpha1.NotificationSpec) { s.Events = events }
}

var _ = Describe("A Notification", func() {
	It("tells each transition once, across restarts, and nothing from before or of other namespaces", func(ctx SpecContext) {
		asDeployed()
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		through := func(name string) {
			GinkgoHelper()
			Eventually(w.line).WithArguments(ctx, name).Should(Equal("True Succeeded Synced Healthy 1/1"))
		}
		w.run(ctx, "before", brief)
		through("before")

		By("being made where its Secret may not be read yet")
		in := newInbox()
		w.notification(ctx, "hook", in.url, telling(v1alpha1.EventRunSucceeded, v1alpha1.EventRunFailed, v1alpha1.EventSourceFailed, v1alpha1.EventSourceRecovered))
		Eventually(w.notificationState).WithArguments(ctx, "hook").Should(HavePrefix("False BindingMissing spec.secretRef: MiniFleet may not read Secret " + w.name + "/hook"))
		follow(says(w.notificationNow(ctx, "hook").Status.Conditions))
		Eventually(w.notificationState).WithArguments(ctx, "hook").Should(Equal("True Succeeded messages are sent to a webhook"))

		By("seeing a run here, and one elsewhere")
		other := w.fmc("one", brief)
		other.Namespace = w.name + "-other"
		w.makeNamespace(ctx, other.Namespace)
		Expect(hub.Create(ctx, other)).To(Succeed())
		Eventually(func() string { return lineOf(fmcIn(ctx, other.Namespace, "one")) }).Should(Equal("True Succeeded Synced Healthy 1/1"))
		w.run(ctx, "one", brief)
		through("one")
		expected := []string{"run.succeeded one"}
		Eventually(in.all).Should(Equal(expected))
		Eventually(func() int64 { return w.notificationNow(ctx, "hook").Status.Delivered }).Should(BeEquivalentTo(1))

		By("being killed once that is saved")
		Expect(minifleet.Kill()).To(Succeed())
		startDeployed()
		w.run(ctx, "two", brief)
		expected = append(expected, "run.succeeded two")
		Eventually(in.all).Should(Equal(expected))

		By("being stopped in order before that is saved")
		w.run(ctx, "three", brief)
		expected = append(expected, "run.succeeded three")
		Eventually(in.all).WithPolling(5 * time.Millisecond).Should(Equal(expected))
		Expect(minifleet.Stop()).To(Succeed())
		startDeployed()
		w.run(ctx, "four", brief)
		expected = append(expected, "run.succeeded four")
		Eventually(in.all).Should(Equal(expected))

		By("being killed after a message was received, and before that is known")
		in.when("run.succeeded five", func() { _ = minifleet.Kill() })
		w.run(ctx, "five", brief)
		Eventually(minifleet.Running).Should(BeFalse())
		startDeployed()
		expected = append(expected, "run.succeeded five", "run.succeeded five")
		Eventually(in.all).Should(Equal(expected))
		Expect(in.ids["run.succeeded five"][0]).To(Equal(in.ids["run.succeeded five"][1]), "the id by which a receiver knows it")

		By("not running while something happens")
		w.run(ctx, "six", held)
		w.podsRun(ctx, "six", "1/1")
		Expect(minifleet.Kill()).To(Succeed())
		w.releasePod(ctx, "six", "0")
		Eventually(func() bool {
			j := job(ctx, "alpine", w.name, "six")
			return j != nil && j.Status.CompletionTime != nil && j.Status.Conditions[len(j.Status.Conditions)-1].Type == batchv1.JobComplete
		}).Should(BeTrue())
		startDeployed()
		expected = append(expected, "run.succeeded six")
		Eventually(in.all).Should(Equal(expected))

		By("having a source that fails, and recovers")
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.txt": "nothing"})
		gitSource(ctx, w.name, "fleet", r.server.URL("absent"))
		expected = append(expected, "source.failed fleet")
		Eventually(in.all).Should(Equal(expected))
		Eventually(func() error {
			var s v1alpha1.GitSource
			if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "fleet"}, &s); err != nil {
				return err
			}
			s.Spec.URL = r.server.URL("fleet")
			return hub.Update(ctx, &s)
		}).Should(Succeed())
		expected = append(expected, "source.recovered fleet")
		Eventually(in.all).Should(Equal(expected))

		By("being suspended and resumed")
		suspend := func(to bool) {
			GinkgoHelper()
			Eventually(func() error {
				n := w.notificationNow(ctx, "hook")
				n.Spec.Suspend = to
				return hub.Update(ctx, n)
			}).Should(Succeed())
		}
		suspend(true)
		Eventually(w.notificationState).WithArguments(ctx, "hook").Should(HavePrefix("False Suspended"))
		w.run(ctx, "seven", brief)
		through("seven")
		suspend(false)
		Eventually(w.notificationState).WithArguments(ctx, "hook").Should(HavePrefix("True Succeeded"))
		w.run(ctx, "eight", brief)
		expected = append(expected, "run.succeeded eight")
		Eventually(in.all).Should(Equal(expected))
		Consistently(in.all).Should(Equal(expected))

		By("looking for its Secret elsewhere")
		Eventually(func() int { return len(expected) - int(w.notificationNow(ctx, "hook").Status.Delivered) }).Should(BeNumerically("<=", 1), "the one that was sent twice")
		shown := kubectl("", "get", "ntf,fmc,gs,cm,events", "-n", w.name, "-o", "yaml") + kubectl("", "get", "ntf", "-n", w.name, "-o", "wide")
		log, err := os.ReadFile(minifleet.LogPath())
		Expect(err).NotTo(HaveOccurred())
		for _, canary := range []string{secretAddress, secretKey} {
			Expect(shown).NotTo(ContainSubstring(canary))
			Expect(string(log)).NotTo(ContainSubstring(canary))
		}
	})

	It("delays nothing when its server hangs, and says what is wrong with an address", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		end := make(chan struct{})
		hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-end:
			}
		}))
		DeferCleanup(func() { close(end); hang.Close() })
		moved := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/"+secretAddress, http.StatusTemporaryRedirect))
		DeferCleanup(moved.Close)
		in := newInbox()
		for name, url := range map[string]string{
			"hangs": hang.URL, "moved": moved.URL, "refused": "http://169.254.169.254/" + secretAddress, "local": "http://localhost:1/" + secretAddress, "good": in.url,
		} {
			w.notification(ctx, name, url, telling(v1alpha1.EventRunSucceeded, v1alpha1.EventRunStarted))
			Eventually(w.notificationState).WithArguments(ctx, name).Should(HavePrefix("True Succeeded"))
		}
		var expected []string
		for i := range 5 {
			name := fmt.Sprint("run-", i)
			w.run(ctx, name, brief)
			expected = append(expected, "run.started "+name, "run.succeeded "+name)
		}
		for i := range 5 {
			Eventually(w.line).WithArguments(ctx, fmt.Sprint("run-", i)).Should(Equal("True Succeeded Synced Healthy 1/1"))
		}
		Eventually(in.all).Should(ConsistOf(expected))
		for name, want := range map[string]string{
			"hangs":   "False DeliveryFailed the last attempt has failed: the server has not answered within 10s",
			"moved":   "False DeliveryFailed the last attempt has failed: the server redirects (307), which is not followed: set the address to where it is now",
			"refused": "False DeliveryFailed the last attempt has failed: the host of the address is in 169.254.0.0/16, to which this hub does not connect",
			"good":    "True Succeeded messages are sent to a webhook",
		} {
			Eventually(w.notificationState).WithArguments(ctx, name).Should(HavePrefix(want), name)
		}
		Expect(w.notificationNow(ctx, "hangs").Status.Delivered).To(BeZero())
		Expect(kubectl("", "get", "ntf,events", "-n", w.name, "-o", "yaml")).NotTo(ContainSubstring(secretAddress))
		Eventually(w.events).WithArguments(ctx, "refused").Should(ContainElement(v1alpha1.ReasonDeliveryFailed))
	})

	It("is refused where it cannot work, and may be made by who may edit the namespace", func(ctx SpecContext) {
		w := newWorld(ctx)
		for manifest, want := range map[string]string{
			"{type: Chat, address: 'https://hooks.slack.com/services/x'}": "the address of a chat is a secret",
			"{type: Chat}": "the address of a chat is a secret",
			"{type: Webhook, address: 'https://x.example.org'}":                     "webhooks are signed",
			"{type: Alertmanager}":                                                  "set address, or name a Secret",
			"{type: Alertmanager, address: 'http://a', events: [RunStarted]}":       "Alertmanager is for what somebody has to look after",
			"{type: Webhook, address: 'file:///etc/passwd', secretRef: {name: a}}":  "spec.address",
			"{type: Pager, secretRef: {name: a}}":                                   "Unsupported value",
			"{type: Webhook, secretRef: {name: a}, events: [Everything]}":           "Unsupported value",
			"{type: Webhook, secretRef: {name: a}, events: [RunFailed, RunFailed]}": "Duplicate value",
		} {
			n := &v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "a"}}
			Expect(yaml.Unmarshal([]byte(manifest), &n.Spec)).To(Succeed())
			Expect(hub.Create(ctx, n)).To(MatchError(ContainSubstring(want)), manifest)
		}
		installRights()
		for who, may := range map[string]bool{"editor": true, "viewer": false} {
			role := map[string]string{"editor": "minifleet-editor", "viewer": "minifleet-viewer"}[who]
			kubectl("", "-n", w.name, "create", "rolebinding", who, "--clusterrole="+role, "--user="+w.name+"-"+who)
			n := &v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: who}}
			n.Spec = v1alpha1.NotificationSpec{Type: v1alpha1.NotifyWebhook, SecretRef: &v1alpha1.LocalReference{Name: "absent"}}
			c := clientFor("hub", w.name+"-"+who)
			if may {
				Eventually(func() error { return c.Create(ctx, n) }).Should(Succeed())
				Eventually(w.notificationState).WithArguments(ctx, who).Should(HavePrefix("False SecretInvalid spec.secretRef: there is no Secret " + w.name + "/absent"))
				n = w.notificationNow(ctx, who)
				Expect(c.Status().Update(ctx, n)).To(MatchError(ContainSubstring("forbidden")))
				Expect(c.Delete(ctx, n)).To(Succeed())
				continue
			}
			Eventually(func() error { return c.List(ctx, &v1alpha1.NotificationList{}, client.InNamespace(w.name)) }).Should(Succeed())
			Expect(c.Create(ctx, n)).To(MatchError(ContainSubstring("forbidden")))
		}
	})
})
