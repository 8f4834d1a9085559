package build

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// probe tries what a process that builds must not be able to do.
func probe() {
	const memory, seconds = 256 << 20, 10
	http.DefaultTransport = offline{}
	confine(memory, seconds)
	tried := map[string]error{}
	_, tried["open a file"] = os.Open("/proc/self/environ")
	_, tried["read the token of a service account"] = os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/token")
	tried["write a file"] = os.WriteFile("/tmp/overlay-probe", nil, 0o600)
	_, tried["list a folder"] = os.ReadDir("/")
	_, tried["dial"] = net.Dial("tcp", "127.0.0.1:1")
	_, tried["open a socket"] = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	_, tried["open a socket of the kernel"] = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
	if res, err := (&http.Client{}).Get("http://127.0.0.1:1/"); err != nil {
		tried["fetch"] = err
	} else {
		tried["fetch"] = res.Body.Close()
	}
	tried["start a program"] = exec.Command("/bin/true").Run()
	tried["replace itself"] = syscall.Exec("/bin/true", []string{"true"}, nil)
	tried["signal its parent"] = syscall.Kill(os.Getppid(), 0)
	tried["signal a thread of its parent"] = unix.Tgkill(os.Getppid(), os.Getppid(), 0)
	tried["raise its limits"] = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1000, Max: 1000})
	tried["take limits from its parent"] = unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil)
	tried["trace its parent"] = unix.PtraceAttach(os.Getppid())
	tried["unshare"] = unix.Unshare(unix.CLONE_NEWUSER)
	done := make(chan struct{})
	go func() { close(done) }() // threads go on
	<-done
	texts := map[string]string{}
	for what, err := range tried {
		texts[what] = fmt.Sprint(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(texts)
}

func TestConfined(t *testing.T) {
	if machine == 0 {
		t.Skip("there is no filter of system calls for this machine")
	}
	command := self(t, beProbe)
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var tried map[string]string
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&tried); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const most = 16
	if len(tried) != most {
		t.Errorf("%d were tried", len(tried))
	}
	for what, err := range tried {
		t.Log(what, "->", err)
		if err == "<nil>" {
			t.Errorf("a confined process can %s", what)
		}
	}
	if _, err := os.Stat("/tmp/overlay-probe"); err == nil {
		t.Error("a confined process has written a file")
	}
}
