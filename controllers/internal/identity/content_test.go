package identity

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	none := map[string]membership{}
	for name, c := range map[string]struct {
		data map[string]string
		want content
		err  string // begins so
	}{
		"complete": {
			map[string]string{"id": "f", "epoch": "2", "members": "alpine u 1\n\n basalt  v 2 \n"},
			content{id: "f", epoch: 2, members: map[string]membership{"alpine": {"u", 1}, "basalt": {"v", 2}}, listed: true}, "",
		},
		"an identity alone":        {map[string]string{"id": " f\n"}, content{id: "f", epoch: 1, members: none}, ""},
		"no members":               {map[string]string{"id": "f", "members": ""}, content{id: "f", epoch: 1, members: none, listed: true}, ""},
		"no identity":              {map[string]string{"epoch": "2"}, content{}, "data.id"},
		"an identity of two lines": {map[string]string{"id": "a\nb"}, content{}, "data.id"},
		"epoch 0":                  {map[string]string{"id": "f", "epoch": "0"}, content{}, "data.epoch"},
		"an epoch in letters":      {map[string]string{"id": "f", "epoch": "two"}, content{}, "data.epoch"},
		"a member without epoch":   {map[string]string{"id": "f", "members": "a u 1\nb u"}, content{}, "data.members, line 2"},
		"a member of epoch -1":     {map[string]string{"id": "f", "members": "a u -1"}, content{}, "data.members, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.data)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(content{}, membership{})); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestDataIsReadAsItWas(t *testing.T) {
	want := content{id: "f", epoch: 4, members: map[string]membership{"b": {"v", 4}, "a": {unknownUID, 0}}, listed: true}
	data := want.data(map[string]string{"note": "of a person"})
	if data["note"] == "" || data["members"] != "a - 0\nb v 4\n" {
		t.Errorf("data %v", data)
	}
	got, err := parse(data)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(content{}, membership{})); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestUnasked(t *testing.T) {
	c := content{members: map[string]membership{"b": {"u", 1}, "a": {unknownUID, 0}, "now": {"v", 2}, "declared": {"w", 1}}}
	declared := map[string]bool{"declared": true}
	if diff := cmp.Diff([]string{"a", "b"}, c.unasked(2, declared)); diff != "" {
		t.Error(diff)
	}
	delete(c.members, "a")
	if got := c.unasked(1, nil); got != nil {
		t.Errorf("in epoch 1: %v", got)
	}
}
