package record

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Machine is where, when and of what something was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Kubernetes is the version of the API servers.
	Kubernetes string `json:"kubernetes"`
	// Commit is of the tree that was measured; Clean says that nothing in it was changed.
	Commit string `json:"commit"`
	Clean  bool   `json:"clean"`
	// Options are those that were given beside the rows.
	Options string `json:"options,omitempty"`
	// Began and Ended are when, LoadBefore and LoadAfter the load then, of 1, 5 and 15 minutes.
	Began      time.Time `json:"began"`
	Ended      time.Time `json:"ended"`
	LoadBefore string    `json:"loadBefore"`
	LoadAfter  string    `json:"loadAfter"`
}

func (m *Machine) write(w io.Writer) {
	tree := "clean"
	if !m.Clean {
		tree = "**with changes that are not committed**"
	}
	line(w, "machine", "")
	line(w, "---", "---")
	line(w, "measured", fmt.Sprintf("%s, for %s", m.Began.UTC().Format("2006-01-02 15:04 UTC"), m.Ended.Sub(m.Began).Round(time.Second)))
	line(w, "CPU, memory", fmt.Sprintf("%s, %d cores, %s", m.CPU, m.Cores, m.Memory))
	line(w, "kernel, Go, Kubernetes", strings.Join([]string{m.Kernel, m.Go, m.Kubernetes}, ", "))
	line(w, "commit", m.Commit+", tree "+tree)
	line(w, "load before, after", m.LoadBefore+"; "+m.LoadAfter)
	if m.Options != "" {
		line(w, "options", "`"+m.Options+"`")
	}
}

// WriteJSON writes it as JSON.
func (m *Machine) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(m)
}
