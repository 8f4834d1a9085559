// Package chat makes the HTTP request that writes a message to a chat. What comes in are the address of the chat, as shoutrrr has
// it, and a text; what goes out is a request that somebody else sends. shoutrrr reads the address and lays the request out, and
// never has a connection: its services have clients of their own, which cannot be told which addresses they may connect to, for how
// long, and how much they may read.
package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/googlechat"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/mattermost"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/rocketchat"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/slack"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/gotify"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/ntfy"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// Request is what is to be posted.
type Request struct {
	URL    *url.URL
	Header http.Header
	Body   []byte
}

// services are those whose requests are made here, by the scheme of their addresses.
var services = map[string]func(address *url.URL, text string) (*Request, error){
	"discord":    ofDiscord,
	"googlechat": ofGoogleChat,
	"gotify":     ofGotify,
	"mattermost": ofMattermost,
	"ntfy":       ofNtfy,
	"rocketchat": ofRocketChat,
	"slack":      ofSlack,
}

// others are schemes of shoutrrr that are refused by name. They send mail, take several requests or answers that have to be
// read, run for what was switched off, or post anything anywhere.
var others = []string{
	"bark", "generic", "ifttt", "join", "lark", "logger", "matrix", "mqtt", "notifiarr", "opsgenie", "pagerduty", "pushbullet", "pushover",
	"signal", "smtp", "teams", "telegram", "wecom", "zulip",
}

const maxAddress = 4096

// New makes the request for a text. An error says what is wrong with the address, and shows nothing of it.
func New(address, text string) (out *Request, err error) {
	address = strings.TrimSpace(address)
	u, parseErr := url.Parse(address)
	if parseErr != nil || len(address) > maxAddress || u.Scheme == "" {
		return nil, fmt.Errorf("is no address of a chat: use one of shoutrrr, such as slack://hook:…@webhook (%s)", supported())
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	of, has := services[u.Scheme]
	switch {
	case slices.Contains(others, scheme):
		return nil, fmt.Errorf("is one of %s, which is not supported here: use one of %s, or a Notification of type Webhook", scheme, supported())
	case !has:
		return nil, fmt.Errorf("is of no chat that is known: it begins with one of %s and ://", supported())
	}
	defer func() {
		// It reads what a tenant has made up.
		if recover() != nil {
			out, err = nil, invalid(u.Scheme)
		}
	}()
	if out, err = of(u, text); err != nil {
		return nil, invalid(u.Scheme) // what shoutrrr says has the address in it
	}
	return out, check(out)
}

func supported() string {
	var out []string
	for scheme := range services {
		out = append(out, scheme)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func invalid(scheme string) error {
	return fmt.Errorf("is no valid address of %s: see its service in the documentation of shoutrrr", scheme)
}

func check(r *Request) error {
	if r.URL.Hostname() == "" || r.URL.Scheme != "https" && r.URL.Scheme != "http" {
		return errors.New("names no host that is reached by HTTP")
	}
	return nil
}

// quiet is where shoutrrr logs to.
type quiet struct{}

func (quiet) Print(...any)          {}
func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// recorder notes the request that it is given, and answers that all is well.
type recorder struct{ request *Request }

var errSecond = errors.New("more than one request")

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.request != nil {
		return nil, errSecond
	}
	if req.Method != http.MethodPost || req.Body == nil {
		return nil, fmt.Errorf("%s is not POST", req.Method)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.request = &Request{URL: req.URL, Header: req.Header.Clone(), Body: body}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader("{}")), Request: req,
	}, nil
}

// Do implements the client of Discord.
func (r *recorder) Do(req *http.Request) (*http.Response, error) { return r.RoundTrip(req) }

// recorded has a service send a text to the recorder.
func recorded(r *recorder, service types.Sender, text string) (*Request, error) {
	if err := service.Send(text, &types.Params{}); err != nil {
		return nil, err
	}
	if r.request == nil {
		return nil, errors.New("no request was made")
	}
	return r.request, nil
}

func ofDiscord(address *url.URL, text string) (*Request, error) {
	r, service := &recorder{}, &discord.Service{}
	if err := service.Initialize(address, quiet{}); err != nil {
		return nil, err
	}
	service.HTTPClient = r
	return recorded(r, service, text)
}

func ofMattermost(address *url.URL, text string) (*Request, error) {
	r, service := &recorder{}, &mattermost.Service{}
	if err := service.Initialize(address, quiet{}); err != nil {
		return nil, err
	}
	service.GetHTTPClient().Transport = r
	return recorded(r, service, text)
}

func ofRocketChat(address *url.URL, text string) (*Request, error) {
	r := &recorder{}
	service := &rocketchat.Service{Client: &http.Client{Transport: r}}
	if err := service.Initialize(address, quiet{}); err != nil {
		return nil, err
	}
	return recorded(r, service, text)
}

func ofGotify(address *url.URL, text string) (*Request, error) {
	r, service := &recorder{}, &gotify.Service{}
	if err := service.Initialize(address, quiet{}); err != nil {
		return nil, err
	}
	service.GetHTTPClient().Transport = r
	return recorded(r, service, text)
}

func ofNtfy(address *url.URL, text string) (*Request, error) {
	r, service := &recorder{}, &ntfy.Service{}
	if err := service.Initialize(address, quiet{}); err != nil {
		return nil, err
	}
	service.SetHTTPClient(&http.Client{Transport: r})
	return recorded(r, service, text)
}

// ofSlack makes the request itself: the client of this service cannot be replaced.
func ofSlack(address *url.URL, text string) (*Request, error) {
	config, err := slack.CreateConfigFromURL(address)
	if err != nil {
		return nil, err
	}
	if config.Token.IsAPIToken() {
		return nil, errors.New("only incoming webhooks are supported")
	}
	return asJSON(config.Token.WebhookURL(), slack.CreateJSONPayload(config, text))
}

// ofGoogleChat does so, too.
func ofGoogleChat(address *url.URL, text string) (*Request, error) {
	var config googlechat.Config
	if err := config.SetURL(address); err != nil {
		return nil, err
	}
	to := url.URL{Scheme: "https", Host: config.Host, Path: config.Path, RawQuery: url.Values{"key": {config.Key}, "token": {config.Token}}.Encode()}
	return asJSON(to.String(), googlechat.JSON{Text: text})
}

func asJSON(to string, value any) (*Request, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(value); err != nil {
		return nil, err
	}
	return &Request{URL: u, Header: http.Header{"Content-Type": {"application/json"}}, Body: body.Bytes()}, nil
}
