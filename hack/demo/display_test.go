package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func tableOf(notes ...string) table {
	var t table
	for _, note := range notes {
		t = append(t, row{name: "m", member: "c", run: note})
	}
	return t
}

func TestScreenRedrawsInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		tables []table
		want   string
	}{
		"the first table is only written": {
			tables: []table{tableOf("Running")},
			want: "MINICLUSTER  PLACEMENT  MEMBER...\x1b[K\n" +
				"m                       c     ...\x1b[K\n\x1b[J",
		},
		"the same table is not written again": {
			tables: []table{nil, nil},
			want:   "MINICLUSTER  PLACEMENT  MEMBER...\x1b[K\n\x1b[J",
		},
		"the cursor goes up by the lines of the last table": {
			tables: []table{tableOf("Running"), nil},
			want: "MINICLUSTER  PLACEMENT  MEMBER...\x1b[K\n" +
				"m                       c     ...\x1b[K\n\x1b[J" +
				"\x1b[2AMINICLUSTER  PLACEMENT  MEMBER...\x1b[K\n\x1b[J",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			view := &screen{out: &out, width: func() int { return 34 }}
			for _, table := range c.tables {
				view.draw(table)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("screen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJournalWritesALinePerChangeWithoutControlCharacters(t *testing.T) {
	var out bytes.Buffer
	view := &journal{out: &out, since: func() time.Duration { return 1500 * time.Millisecond }}
	running := table{{name: "a", member: "m", sync: "Synced", run: "Running", pods: nothing}}
	view.draw(running)
	view.draw(running)
	view.end()
	want := `   1.5s  a on m: Synced, Running

MINICLUSTER  PLACEMENT  MEMBER  SYNC    RUN      PODS  TOOK
a                       m       Synced  Running  -
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}
