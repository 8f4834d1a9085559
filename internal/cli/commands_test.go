package cli

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// transcript is all that can be seen of a command line.
func transcript(args []string, code int, stdout, stderr string) string {
	return fmt.Sprintf("$ minifleet %s\n%s%s(exit code %d)\n", strings.Join(args, " "), stdout, prefixed(stderr), code)
}

func prefixed(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		b.WriteString("2> " + line)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	orderly := scene{objects: append(fleet(), ofHub()...), funcs: allowing("patch memberclusters")}
	orderly.objects[10] = member("alpine")
	ascii := map[string]string{"LANG": "C"}
	cases := map[string]struct {
		scene scene
		args  []string
	}{
		"get":                {scene{objects: fleet()}, []string{"get"}},
		"get all namespaces": {scene{objects: fleet()}, []string{"get", "-A", "--state", "failed,unknown"}},
		"get wide":           {scene{objects: fleet()}, []string{"get", "-l", "team=md", "-o", "wide"}},
		"get ascii":          {scene{objects: fleet(), env: ascii}, []string{"get"}},
		"get name":           {scene{objects: fleet()}, []string{"get", "lammps", "fmc/done", "-o", "name"}},
		"get yaml":           {scene{objects: fleet()}, []string{"get", "held", "-o", "yaml"}},
		"get json":           {scene{objects: fleet()}, []string{"get", "--state", "Suspended", "-o", "json"}},
		"get nothing":        {scene{}, []string{"get"}},
		"tree":               {orderly, []string{"tree", "lammps"}},
		"tree waiting":       {orderly, []string{"tree", "relax"}},
		"tree unreachable":   {scene{objects: fleet()}, []string{"tree", "lammps"}},
		"tree ascii":         {scene{objects: fleet(), env: ascii}, []string{"tree", "lost"}},
		"trace":              {orderly, []string{"trace", "lammps"}},
		"trace unreachable":  {scene{objects: fleet()}, []string{"trace", "lost"}},
		"trace one run":      {scene{objects: fleet()}, []string{"trace", "broken", "--run", "77"}},
		"why":                {scene{objects: fleet()}, []string{"why", "relax"}},
		"why running":        {orderly, []string{"why", "lammps"}},
		"why failed":         {orderly, []string{"why", "broken"}},
		"why unknown":        {scene{objects: fleet()}, []string{"why", "lost"}},
		"queue":              {scene{objects: fleet()}, []string{"queue"}},
		"queue of tenants":   {scene{objects: append(fleet(), ofTenant())}, []string{"queue"}},
		"events":             {scene{objects: fleet()}, []string{"events", "lammps"}},
		"events of all":      {scene{objects: fleet()}, []string{"events", "-A"}},
		"check":              {orderly, []string{"check"}},
		"check a bad hub":    {scene{objects: fleet(), funcs: allowing()}, []string{"check"}},
		"check a hub of OLM": {scene{objects: append(ofHub(), member("alpine"), ofOperator()), funcs: allowing()}, []string{"check"}},
		"source list":        {scene{objects: fleet()}, []string{"source", "list"}},
		"source list wide":   {scene{objects: fleet()}, []string{"source", "list", "-A", "-o", "wide"}},
		"source get":         {scene{objects: fleet()}, []string{"source", "get", "fleet"}},
		"approve prune, ask": {scene{objects: fleet()}, []string{"source", "approve-prune", "fleet"}},
		"approve prune":      {scene{objects: fleet()}, []string{"source", "approve-prune", "fleet", fleetCommit}},
		"rerun":              {scene{objects: fleet()}, []string{"rerun", "done"}},
		"cancel dry":         {scene{objects: fleet()}, []string{"cancel", "lammps", "--dry-run"}},
		"cancel":             {scene{objects: fleet()}, []string{"cancel", "lammps", "3f2a"}},
		"cancel a lost run":  {scene{objects: fleet()}, []string{"cancel", "lost"}},
		"suspend":            {scene{objects: fleet()}, []string{"suspend", "relax", "urgent"}},
		"resume":             {scene{objects: fleet()}, []string{"resume", "held", "-o", "name"}},
		"scale":              {scene{objects: fleet()}, []string{"scale", "lammps", "--size", "8"}},
		"wait done":          {scene{objects: fleet()}, []string{"wait", "done"}},
		"wait failed":        {scene{objects: fleet()}, []string{"wait", "done", "broken"}},
		"run dry":            {scene{}, []string{"run", "lammps", "--image", "ghcr.io/example/lammps:1", "--size", "4", "--tasks", "16", "-e", "A=b", "--limits", "cpu=4", "--dry-run", "-o", "yaml", "--", "lmp", "-in", "in melt"}},
		"run a file":         {scene{}, []string{"run", "-f", "testdata/hello.yaml", "--detach"}},
		"plugin":             {scene{program: "kubectl minifleet"}, []string{"get", "none"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := play(t, c.scene, c.args...)
			golden(t, strings.ReplaceAll(name, ",", ""), transcript(c.args, code, stdout, stderr))
			for _, r := range stdout + stderr {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("prints %U", r)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	hub, none, denied := scene{objects: fleet()}, scene{}, scene{objects: fleet(), funcs: forbidden()}
	const denial = `is forbidden: <nil>: ask whoever administers the hub for that right`
	const absent = "FleetMiniCluster hpc/none not found: check the name and the namespace (-n); `minifleet get -A` lists what there is"
	cases := map[string]struct {
		scene scene
		args  []string
		code  int
		err   string
	}{
		"get the absent":             {none, []string{"get", "none"}, 1, absent},
		"get the forbidden":          {denied, []string{"get"}, 1, denial},
		"get, a wrong flag":          {none, []string{"get", "--frob"}, 2, "unknown flag: --frob; see `minifleet get --help`"},
		"get, a wrong output":        {none, []string{"get", "-o", "xml"}, 2, `-o: "xml" is none of wide, json, yaml, name`},
		"get, a wrong state":         {none, []string{"get", "--state", "Dead"}, 2, `--state: "Dead" is none of Waiting,`},
		"get, a wrong selector":      {none, []string{"get", "-l", "=="}, 2, "-l: "},
		"get, a name and -A":         {none, []string{"get", "a", "-A"}, 2, "names go with neither -A nor -l"},
		"get, no name":               {none, []string{"get", "a/b"}, 2, `"a/b" is no name`},
		"get, a path":                {none, []string{"get", ".."}, 2, `".." is no name: a lowercase RFC 1123 subdomain`},
		"logs, a path":               {hub, []string{"logs", "lammps", "-n", "..", "--server", "http://localhost"}, 1, `".." is no name`},
		"tree of the absent":         {none, []string{"tree", "none"}, 1, absent},
		"tree of the forbidden":      {denied, []string{"tree", "lammps"}, 1, denial},
		"tree of nothing":            {none, []string{"tree"}, 2, "minifleet tree: name a FleetMiniCluster; see `minifleet tree --help`"},
		"trace of the absent":        {none, []string{"trace", "none"}, 1, absent},
		"trace of the forbidden":     {denied, []string{"trace", "lammps"}, 1, denial},
		"trace of no run":            {hub, []string{"trace", "lammps", "--run", "00"}, 1, `FleetMiniCluster hpc/lammps: run: there is no run "00" on record`},
		"trace of two":               {none, []string{"trace", "a", "b"}, 2, `takes no argument "b"`},
		"why of the absent":          {none, []string{"why", "none"}, 1, absent},
		"why of the forbidden":       {denied, []string{"why", "lammps"}, 1, denial},
		"why, a wrong flag":          {none, []string{"why", "-A", "x"}, 2, "unknown shorthand flag"},
		"queue, forbidden":           {denied, []string{"queue"}, 1, denial},
		"queue, a name":              {none, []string{"queue", "x"}, 2, "takes no argument"},
		"events of the absent":       {none, []string{"events", "none"}, 1, absent},
		"events, forbidden":          {denied, []string{"events"}, 1, denial},
		"events, a wrong output":     {none, []string{"events", "-o", "name"}, 2, "-o:"},
		"check, forbidden":           {denied, []string{"check"}, 0, ""},
		"check, a name":              {none, []string{"check", "x"}, 2, "takes no argument"},
		"source of nothing":          {none, []string{"source", "frob"}, 2, "takes no argument"},
		"source get, absent":         {none, []string{"source", "get", "none"}, 1, "GitSource hpc/none not found: check the name and the namespace (-n); `minifleet source list -A` lists"},
		"source get, forbidden":      {denied, []string{"source", "get", "fleet"}, 1, denial},
		"source get, a wrong flag":   {none, []string{"source", "get", "x", "-A"}, 2, "unknown shorthand flag"},
		"source list, forbidden":     {denied, []string{"source", "list"}, 1, denial},
		"source list, a name":        {none, []string{"source", "list", "x"}, 2, "takes no argument"},
		"approve another revision":   {hub, []string{"source", "approve-prune", "fleet", "main@0000000"}, 1, `GitSource hpc/fleet: revision: "main@0000000" is not what waits for approval, which is the commit ` + fleetCommit},
		"approve what is not asked":  {hub, []string{"source", "approve-runs", "fleet"}, 1, "nothing waits for approval"},
		"approve for the absent":     {none, []string{"source", "approve-runs", "none"}, 1, "GitSource hpc/none not found"},
		"approve too much":           {none, []string{"source", "approve-runs", "a", "b", "c"}, 2, "takes no argument"},
		"source reconcile, absent":   {none, []string{"source", "reconcile", "none"}, 1, "GitSource hpc/none not found"},
		"reconcile, not from Git":    {hub, []string{"reconcile", "relax"}, 1, "is not from Git, so there is nothing to read; to run it again: minifleet rerun relax"},
		"reconcile the absent":       {none, []string{"reconcile", "none"}, 1, absent},
		"reconcile, forbidden":       {denied, []string{"reconcile", "lammps"}, 1, denial},
		"reconcile, no time":         {none, []string{"reconcile", "x", "--timeout", "0s"}, 2, "--timeout must be more than 0"},
		"reconcile, no answer":       {hub, []string{"reconcile", "lammps", "--timeout", "1ms"}, 1, "the repository was not read within 1ms"},
		"rerun the absent":           {none, []string{"rerun", "none"}, 1, absent},
		"rerun, forbidden":           {denied, []string{"rerun", "lammps"}, 1, denial},
		"rerun, a timeout":           {none, []string{"rerun", "x", "--timeout", "1s"}, 2, "--timeout is for --wait"},
		"rerun, a wrong request":     {hub, []string{"rerun", "lammps", "--request", "a b"}, 1, `token: "a b" is no token`},
		"rerun the absent and wait":  {none, []string{"rerun", "none", "--wait"}, 2, absent},
		"cancel the absent":          {none, []string{"cancel", "none"}, 1, absent},
		"cancel, forbidden":          {denied, []string{"cancel", "lammps"}, 1, denial},
		"cancel what has ended":      {hub, []string{"cancel", "lammps", "9c1d"}, 1, "run: 9c1d000000 on basalt has ended already (Succeeded): name a run that is live"},
		"cancel nothing":             {none, []string{"cancel"}, 2, "name a FleetMiniCluster"},
		"suspend the absent":         {none, []string{"suspend", "none"}, 1, absent},
		"suspend, forbidden":         {denied, []string{"suspend", "lammps"}, 1, denial},
		"resume the absent":          {none, []string{"resume", "none"}, 1, absent},
		"resume, a wrong output":     {none, []string{"resume", "x", "-o", "wide"}, 2, "-o:"},
		"scale, too large":           {hub, []string{"scale", "lammps", "--size", "9"}, 1, "FleetMiniCluster hpc/lammps: spec.miniCluster.size: 9 is above maxSize, 8: choose a smaller one"},
		"scale, no size":             {none, []string{"scale", "x"}, 2, "--size: say how many"},
		"scale, forbidden":           {denied, []string{"scale", "x", "--size", "1"}, 1, denial},
		"scale the absent":           {none, []string{"scale", "none", "--size", "1"}, 1, absent},
		"wait for the absent":        {none, []string{"wait", "none"}, 2, absent},
		"wait, forbidden":            {denied, []string{"wait", "lammps"}, 2, denial},
		"wait, a wrong flag":         {none, []string{"wait", "x", "--timeout", "soon"}, 2, "invalid argument"},
		"wait too short":             {hub, []string{"wait", "lammps", "--timeout", "1ms"}, 3, "FleetMiniCluster hpc/lammps: not done after 1ms: 3 of 4 pods ready"},
		"run nothing":                {none, []string{"run"}, 2, "--image: name the image that runs, or a file with -f"},
		"run, a wrong size":          {none, []string{"run", "x", "--image", "a", "--size", "-1"}, 2, "FleetMiniCluster hpc/x: spec.miniCluster.size: Invalid value"},
		"run, forbidden":             {denied, []string{"run", "x", "--image", "a"}, 2, denial},
		"run, forbidden, detached":   {denied, []string{"run", "x", "--image", "a", "-d"}, 1, denial},
		"run what is there":          {hub, []string{"run", "lammps", "--image", "a", "-d"}, 1, "FleetMiniCluster hpc/lammps: metadata.name: exists already: use another name"},
		"run two commands":           {none, []string{"run", "x", "--image", "a", "--command", "b", "--", "c"}, 2, "--command: the command is given after -- already"},
		"run a file and an image":    {none, []string{"run", "-f", "testdata/hello.yaml", "--image", "a"}, 2, "--image goes not with -f"},
		"run a file and a command":   {none, []string{"run", "-f", "testdata/hello.yaml", "--", "a"}, 2, "--command goes not with -f"},
		"run no file":                {none, []string{"run", "-f", "testdata/none.yaml"}, 2, "testdata/none.yaml"},
		"run a placement and labels": {none, []string{"run", "--image", "a", "--placement", "p", "-l", "a=b"}, 2, "--placement goes not with"},
		"run with wrong limits":      {none, []string{"run", "--image", "a", "--limits", "cpu=many"}, 2, "--limits: cpu=many"},
		"run with wrong labels":      {none, []string{"run", "--image", "a", "-l", "=="}, 2, "-l: "},
		"logs without a server":      {hub, []string{"logs", "lammps"}, 2, "--server: give the address of the dashboard, or set MINIFLEET_SERVER"},
		"logs, a plain server":       {hub, []string{"logs", "lammps", "--server", "http://fleet.example.org"}, 2, "is not encrypted, and the token would be sent over it"},
		"logs, no server at all":     {hub, []string{"logs", "lammps", "--server", "fleet"}, 2, `"fleet" is no address of a dashboard`},
		"logs, a wrong tail":         {hub, []string{"logs", "lammps", "--tail", "-2"}, 2, "--tail must be 0 or more"},
		"logs, previous and follow":  {hub, []string{"logs", "lammps", "-p", "-f"}, 2, "--previous has ended"},
		"diff without a server":      {hub, []string{"diff", "lammps"}, 2, "--server: give the address"},
		"diff, a wrong output":       {hub, []string{"diff", "lammps", "-o", "wide"}, 2, "-o:"},
		"open without a server":      {hub, []string{"open", "lammps"}, 2, "--server: give the address"},
		"an unknown command":         {none, []string{"frob"}, 2, `minifleet takes no argument "frob"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := play(t, c.scene, c.args...)
			if code != c.code || !strings.Contains(stderr, c.err) || c.err == "" && strings.Contains(stderr, "minifleet:") {
				t.Errorf("exit code %d, want %d\n%s2> %s\nwant %s", code, c.code, stdout, stderr, c.err)
			}
		})
	}
}

// What commands write on the hub.
func TestChanges(t *testing.T) {
	cases := map[string]struct {
		args       []string
		object     client.Object
		annotation string
		want       string
	}{
		"rerun":              {[]string{"rerun", "lammps"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationRerunAt, "2026-05-04T12:00:00.000000000Z"},
		"rerun with request": {[]string{"rerun", "lammps", "--request", "7"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationRerunAt, "7"},
		"rerun dry":          {[]string{"rerun", "lammps", "--dry-run"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationRerunAt, ""},
		"cancel":             {[]string{"cancel", "lammps"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationCancel, "3f2a000000"},
		"cancel dry":         {[]string{"cancel", "lammps", "--dry-run"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationCancel, ""},
		"suspend":            {[]string{"suspend", "lammps"}, &v1alpha1.FleetMiniCluster{}, v1alpha1.AnnotationHold, "true"},
		"reconcile":          {[]string{"reconcile", "lammps", "--no-wait"}, &v1alpha1.GitSource{}, v1alpha1.AnnotationReconcileAt, "2026-05-04T12:00:00.000000000Z"},
		"source reconcile":   {[]string{"source", "reconcile", "fleet", "--no-wait"}, &v1alpha1.GitSource{}, v1alpha1.AnnotationReconcileAt, "2026-05-04T12:00:00.000000000Z"},
		"approve, ask":       {[]string{"source", "approve-prune", "fleet"}, &v1alpha1.GitSource{}, v1alpha1.AnnotationApprovePrune, ""},
		"approve":            {[]string{"source", "approve-prune", "fleet", fleetCommit}, &v1alpha1.GitSource{}, v1alpha1.AnnotationApprovePrune, fleetCommit},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, stderr, hub := play(t, scene{objects: fleet()}, c.args...)
			key := client.ObjectKey{Namespace: "hpc", Name: "lammps"}
			if _, isSource := c.object.(*v1alpha1.GitSource); isSource {
				key.Name = "fleet"
			}
			if err := hub.Get(t.Context(), key, c.object); err != nil || code != 0 {
				t.Fatalf("%v, exit code %d: %s", err, code, stderr)
			}
			if got := c.object.GetAnnotations()[c.annotation]; got != c.want {
				t.Errorf("%s is %q, want %q", c.annotation, got, c.want)
			}
		})
	}
}
