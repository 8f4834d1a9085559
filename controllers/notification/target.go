package notification

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
	"github.com/minifleet/minifleet/internal/notify/chat"
)

// target is where a Notification sends to, and with what.
type target struct {
	kind   v1alpha1.NotificationType
	name   types.NamespacedName
	client *http.Client
	// to is nil for a chat, whose requests are made of address.
	to        *url.URL
	address   string
	key       []byte
	token     string
	dashboard string
}

// problem is what is wrong with a Notification or its Secret. It shows nothing of the Secret.
type problem struct{ reason, message string }

// newTarget reads a Notification and the data of its Secret, nil where it names none.
func newTarget(n *v1alpha1.Notification, data map[string][]byte, network Network, dashboard string) (*target, *problem) {
	t := &target{
		kind: n.Spec.Type, name: types.NamespacedName{Namespace: n.Namespace, Name: n.Name}, dashboard: dashboard,
		address: strings.TrimSpace(string(data[v1alpha1.NotificationAddressKey])), token: strings.TrimSpace(string(data[v1alpha1.NotificationTokenKey])),
	}
	invalid := func(message string) *problem {
		return &problem{v1alpha1.ReasonSecretInvalid, "spec.secretRef: Secret " + n.Namespace + "/" + n.Spec.SecretRef.Name + " " + message}
	}
	var err error
	if t.client, err = httpClient(network, data[v1alpha1.NotificationCAKey]); err != nil {
		return nil, invalid(err.Error())
	}
	switch {
	case t.kind == v1alpha1.NotifyChat && t.address == "":
		return nil, invalid("has no address of a chat: add the key address, for example slack://hook:…@webhook")
	case t.kind == v1alpha1.NotifyChat:
		if _, err := chat.New(t.address, "-"); err != nil {
			return nil, invalid("has under the key address what " + err.Error())
		}
		return t, nil
	case t.address == "" && n.Spec.Address == "":
		return nil, invalid("has no address to send to: add the key address, or set spec.address")
	case t.address == "" && t.token != "":
		// Else whoever may write Notifications and not read Secrets could have a token sent anywhere.
		return nil, invalid("has a token and no address: put the address that the token is for into the Secret as well, under the key address")
	}
	return t, t.resolve(n, data, invalid)
}

// resolve sets where to send to, and the key of a webhook.
func (t *target) resolve(n *v1alpha1.Notification, data map[string][]byte, invalid func(string) *problem) *problem {
	address := t.address
	if address == "" {
		address = n.Spec.Address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		if t.address == "" {
			return &problem{v1alpha1.ReasonAddressRefused, "spec.address: it has to be https:// or http:// and a host"}
		}
		return invalid("has an address that cannot be used: it has to be https:// or http:// and a host")
	}
	if t.to = u; t.kind == v1alpha1.NotifyAlertmanager {
		t.to = u.JoinPath("api", "v2", "alerts")
		return nil
	}
	if t.key, err = notify.Key(data[v1alpha1.NotificationHMACKey]); err != nil {
		return invalid("has no key to sign with: the key hmacKey " + err.Error() + ", such as whsec_ and what `openssl rand -base64 32` prints")
	}
	return nil
}

// request is what tells a transition, as of now.
func (t *target) request(tr *notify.Transition, now time.Time) (*url.URL, http.Header, []byte, error) {
	header := http.Header{"User-Agent": {"minifleet"}, "Content-Type": {"application/json"}}
	if t.kind == v1alpha1.NotifyChat {
		r, err := chat.New(t.address, notify.Text(tr, t.name, t.dashboard))
		if err != nil {
			return nil, nil, nil, err
		}
		return r.URL, r.Header, r.Body, nil
	}
	if t.token != "" {
		header.Set("Authorization", "Bearer "+t.token)
	}
	if t.kind == v1alpha1.NotifyAlertmanager {
		body, err := notify.Alerts(tr, t.dashboard, now)
		return t.to, header, body, err
	}
	body, err := notify.Webhook(tr, t.name, t.dashboard)
	id := tr.ID(t.name)
	header.Set(notify.HeaderID, id)
	header.Set(notify.HeaderTimestamp, notify.Timestamp(now))
	header.Set(notify.HeaderSignature, notify.Sign(t.key, id, now, body))
	return t.to, header, body, err
}
