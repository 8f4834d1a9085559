package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// nasty ends a line, begins another one in the form of the hub's own, colours it, and turns it around.
const nasty = "first\n{\"level\":\"info\",\"msg\":\"forged\"}\r\x1b[31mred\u202eright\u2028line\x00\xff"

type stringer struct{}

func (stringer) String() string { return nasty }

type broken struct{}

func (*broken) Error() string { panic(nasty) }

type tree struct {
	Name string            `json:"name"`
	List []string          `json:"list"`
	Map  map[string]string `json:"map"`
}

func TestLogsAreSanitized(t *testing.T) {
	status := &apierrors.StatusError{ErrStatus: metav1.Status{Message: nasty, Details: &metav1.StatusDetails{Name: nasty}}}
	for name, write := range map[string]func(logr.Logger){
		"a message":          func(l logr.Logger) { l.Info(nasty) },
		"an error":           func(l logr.Logger) { l.Error(status, "failed") },
		"an error joined":    func(l logr.Logger) { l.Error(errors.Join(status, errors.New(nasty)), nasty) },
		"no error":           func(l logr.Logger) { l.Error(nil, nasty) },
		"text":               func(l logr.Logger) { l.Info("m", "key", nasty) },
		"a key":              func(l logr.Logger) { l.Info("m", nasty, "value") },
		"an error as value":  func(l logr.Logger) { l.Info("m", "err", status) },
		"a stringer":         func(l logr.Logger) { l.Info("m", "key", stringer{}) },
		"bytes":              func(l logr.Logger) { l.Info("m", "key", []byte(nasty)) },
		"a tree":             func(l logr.Logger) { l.Info("m", "key", tree{nasty, []string{nasty}, map[string]string{nasty: nasty}}) },
		"what has no JSON":   func(l logr.Logger) { l.Info("m", "key", map[string]any{"f": func() {}, "s": nasty}) },
		"what panics":        func(l logr.Logger) { l.Info("m", "key", (*broken)(nil)) },
		"values of a logger": func(l logr.Logger) { l.WithValues("key", nasty).Info("m") },
		"a name":             func(l logr.Logger) { l.WithName(nasty).Info("m") },
		"a call depth":       func(l logr.Logger) { l.WithCallDepth(1).Info(nasty) },
		"klog":               func(l logr.Logger) { klog.SetLogger(l); klog.Warning(nasty); klog.InfoS(nasty, "key", nasty) },
		"runtime errors":     func(l logr.Logger) { klog.SetLogger(l); utilruntime.HandleError(status) },
		"long text":          func(l logr.Logger) { l.Info(strings.Repeat("a", 1<<20), "key", strings.Repeat("b", 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(klog.ClearLogger)
			for _, development := range []bool{false, true} {
				var out bytes.Buffer
				write(newLogger(zapcore.DebugLevel, development, &out))
				if out.Len() == 0 || out.Len() > 6*maxLogged {
					t.Errorf("%d bytes are logged", out.Len())
				}
				for line := range strings.Lines(out.String()) {
					if strings.HasPrefix(line, `{"level":"info","msg":"forged"`) {
						t.Errorf("forged: %q", line)
					}
					if i := strings.IndexFunc(strings.TrimRight(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }); i >= 0 {
						t.Errorf("%q in %q", line[i], line)
					}
				}
			}
		})
	}
}

func TestLogsKeepTheirStructure(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(zapcore.InfoLevel, false, &out)
	log.Info("m", "object", types.NamespacedName{Namespace: "hpc", Name: "a"}, "ref", klog.KRef("hpc", "a"), "n", 7, "is", true, "took", time.Second, "err", nil)
	log.V(5).Info("not at this level")
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	ref, _ := got["ref"].(map[string]any)
	object, _ := got["object"].(map[string]any)
	if ref["name"] != "a" || object["name"] != "a" || got["n"] != 7.0 || got["is"] != true || got["took"] != 1.0 {
		t.Errorf("got %s", out.String())
	}
}
