package podhealth

import (
	"strings"
	"testing"
)

// shutdown is what the lead's broker and entrypoint write after the command has failed, each on a terminal's line.
const shutdown = "<3>broker.err[0]: rc2.0: flux submit -N 2 --quiet --watch lmp -in in.lj Exited (rc=1) 1.2s\r\n" +
	"<6>broker.info[0]: rc2-fail: run->cleanup 1.24543s\r\n" +
	"<6>broker.info[0]: cleanup.0: flux queue stop --quiet --all --nocheckpoint Exited (rc=0) 0.3s\r\n" +
	"<3>broker.err[0]: cleanup.2: flux-cancel: Canceled 1 job (0 errors)\r\n" +
	"<6>broker.info[0]: cleanup.3: flux queue idle --quiet Exited (rc=0) 0.2s\r\n" +
	"<6>broker.info[0]: cleanup-success: cleanup->shutdown 1.1s\r\n" +
	"<6>broker.info[0]: rc3-success: finalize->goodbye 0.769824s\r\n" +
	"<6>broker.info[0]: goodbye: goodbye->unload-builtins 0.146467ms\r\n" +
	"minifleet: Flux ended with exit code 1\r\n"

func TestCause(t *testing.T) {
	long := strings.Repeat("x ", 150)
	cases := map[string]struct{ message, want string }{
		"nothing": {"", ""},
		"a configuration that is no TOML": {
			"minifleet: flux start -o --config-path=/mnt/flux/config/etc/flux/config\r\n" +
				"flux-broker: Config file error: /mnt/flux/config/etc/flux/config/broker.toml:1: invalid key\r\n" +
				"minifleet: Flux ended with exit code 1\r\n",
			"flux-broker: Config file error: /mnt/flux/config/etc/flux/config/broker.toml:1: invalid key",
		},
		"a job that can never run": {
			"<6>broker.info[0]: quorum-full: quorum->run 0.55s\r\nflux-submit: ERROR: [Errno 22] unsatisfiable request: need 2 node(s) with 4 cores each\r\n" + shutdown,
			"flux-submit: ERROR: [Errno 22] unsatisfiable request: need 2 node(s) with 4 cores each",
		},
		"a view that does not fit": {
			"ImportError: libpython3.11.so.1.0: cannot open shared object file: No such file or directory\n" +
				"minifleet: flux R encode --hosts=lammps-[0-1] --local failed: is Flux in the image, or does its view fit the image's system?\n",
			"ImportError: libpython3.11.so.1.0: cannot open shared object file: No such file or directory; " +
				"flux R encode --hosts=lammps-[0-1] --local failed: is Flux in the image, or does its view fit the image's system?",
		},
		"a command that says nothing":         {shutdown, ""},
		"a message of the program's own":      {"out of licences", "out of licences"},
		"an exception of a job":               {"1.338s: job.exception ƒ2MZ type=exec severity=0 No such file or directory\r\n" + shutdown, "1.338s: job.exception ƒ2MZ type=exec severity=0 No such file or directory"},
		"an error of a broker":                {"<3>broker.err[0]: rc1.0: flux modprobe rc1 Exited (rc=1) 1.2s\n<3>resource.err[0]: bad R\n", "resource.err[0]: bad R"},
		"the last of many":                    {"1\n2\n3\n4\n5\n6\n", "3; 4; 5; 6"},
		"each once":                           {"rank 1 aborts\nrank 1 aborts\nrank 1 aborts\n", "rank 1 aborts"},
		"as many as there is room for":        {long + "a\n" + long + "b\n", long + "b"},
		"colours":                             {"\x1b[1;31merror:\x1b[0m no such group\n", "error: no such group"},
		"a progress bar":                      {"10%\r50%\rfailed at 50%\r\n", "failed at 50%"},
		"a traceback":                         {"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x()\nValueError: no\n", "Traceback (most recent call last):; File \"a.py\", line 1, in <module>; x(); ValueError: no"},
		"a cut line":                          {"hunter2 tail\n" + strings.Repeat("<6>broker.info[0]: goodbye\n", 80) + "boom", "boom"},
		"a variable":                          {"DB_PASSWORD=hunter2 refused\n", "DB_PASSWORD=[redacted] refused"},
		"a mapping":                           {`{"api_key": "hunter2 x", "user": "ann"}`, `{"api_key": [redacted], "user": "ann"}`},
		"a header":                            {"> Authorization: Bearer hunter2hunter2\n", "> Authorization: Bearer [redacted]"},
		"a URL":                               {"cannot clone https://ann:hunter2@git.example.org/a\n", "cannot clone https://[redacted]@git.example.org/a"},
		"a flag":                              {"usage: run --auth-token hunter2 -v\n", "usage: run --auth-token [redacted] -v"},
		"a token of a site":                   {"using ghp_0123456789abcdefghij\n", "using [redacted]"},
		"a key":                               {"read\n-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\nbad key\n", "read; bad key"},
		"the end of a key":                    {"hunter2\n-----END PRIVATE KEY-----\nbad key\n", "bad key"},
		"a blob":                              {"got " + strings.Repeat("aB3/", 20) + "=\n", "got [redacted]"},
		"a key of a configuration is not one": {"unknown key: tasks\n", "unknown key: tasks"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Cause(c.message); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func FuzzCause(f *testing.F) {
	f.Add(shutdown)
	f.Fuzz(func(t *testing.T, message string) {
		if got := Cause(message); strings.Contains(got, "\n") {
			t.Errorf("%q", got)
		}
	})
}
