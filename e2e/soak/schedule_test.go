package soak

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// step is one thing that happens. All of it is drawn before the first one happens, so that a seed always
// gives the same schedule, however the system behaves.
type step struct {
	do    string        // what: a key of actions
	on    string        // a cluster or a zone, or ""
	name  string        // a FleetMiniCluster, or ""
	arg   string        // what the action wants to know besides
	n     int           // a number that the action wants to know
	wait  time.Duration // before the next step
	shard string        // the key of the shard whose controller, or object, it is about; "" is all of them
}

func (s step) String() string {
	parts := []string{s.do}
	for _, w := range []string{s.on, s.name, s.arg} {
		if w != "" {
			parts = append(parts, w)
		}
	}
	if s.n != 0 {
		parts = append(parts, fmt.Sprint(s.n))
	}
	if s.shard != "" {
		parts = append(parts, "of shard "+s.shard)
	}
	return fmt.Sprintf("%s; then %s", strings.Join(parts, " "), s.wait)
}

// taken are names of FleetMiniClusters that somebody else's Job has on a member.
var taken = map[string]string{"taken": "alpine", "seized": "cobalt"}

const hubName = "hub"

// kind is a sort of step: how often it is drawn in proportion to others, and how.
type kind struct {
	weight int
	draw   func(*drawer) step
}

// kinds are in an order that must not change for no reason: what a seed gives depends on it.
var kinds = []kind{
	// The hub.
	{4, func(d *drawer) step { return step{do: "kill-hub", n: d.r.IntN(1500)} }},
	{2, func(d *drawer) step { return step{do: "pause-hub", n: 200 + d.r.IntN(3000)} }},
	{2, func(d *drawer) step { return step{do: "succeed-hub", n: d.r.IntN(2500)} }},
	{2, func(d *drawer) step { return step{do: "depose-hub", n: 500 + d.r.IntN(4000)} }},
	{2, func(d *drawer) step { return step{do: "second-hub", n: 1000 + d.r.IntN(4000)} }},
	{2, func(d *drawer) step { return step{do: "cut-hub", n: 500 + d.r.IntN(6000)} }},
	// Networks and API servers. What is broken is mended a few steps later.
	{9, func(d *drawer) step {
		return d.fault(brief, d.shard.members, "refuse", "hang", "slow", "trickle", "drop", "drop", "kill")
	}},
	{2, func(d *drawer) step { return d.fault(brief, []string{hubName}, "drop", "drop", "slow", "hang", "kill") }},
	// Edits.
	{8, func(d *drawer) step {
		return step{do: "command", name: d.name(), arg: fmt.Sprintf("work-%d", d.r.IntN(3))}
	}},
	{3, func(d *drawer) step {
		return step{do: "on-change", name: d.name(), arg: d.pick("AfterCompletion", "Replace")}
	}},
	{3, func(d *drawer) step { return step{do: "size", name: d.name(), n: 1 + d.r.IntN(maxSize)} }},
	{4, func(d *drawer) step {
		return step{do: "suspend", name: d.name(), arg: d.pick("true", "false", "false")}
	}},
	{5, func(d *drawer) step {
		return step{do: "rerun", name: d.name(), arg: fmt.Sprintf("token-%d", len(d.steps))}
	}},
	{4, func(d *drawer) step { return step{do: "cancel", name: d.name(), on: d.member()} }},
	{4, func(d *drawer) step { return step{do: "place", name: d.name(), arg: d.pick("", "red", "blue")} }},
	{6, func(d *drawer) step {
		return step{do: "move", name: d.name(), on: d.pick("red", "blue"), arg: fmt.Sprintf("work-%d", d.r.IntN(3))}
	}},
	{3, func(d *drawer) step { return step{do: "label", on: d.member(), arg: d.pick("red", "blue", "none")} }},
	{2, func(d *drawer) step { return step{do: "retries", name: d.name(), n: d.r.IntN(2)} }},
	{2, func(d *drawer) step {
		return step{do: "history", name: d.name(), arg: d.pick("succeeded", "failed"), n: d.r.IntN(4) - 1}
	}},
	{1, func(d *drawer) step { return step{do: "ttl", name: d.name(), n: d.r.IntN(4) - 1} }},
	{2, func(d *drawer) step { return step{do: "cleanup", name: d.name(), arg: d.pick("true", "false")} }},
	{4, func(d *drawer) step { return step{do: "delete", name: d.name()} }},
	{5, func(d *drawer) step { return d.create(d.name()) }},
	// What people and pods do on members.
	{4, func(d *drawer) step {
		return step{do: "delete-job", name: d.name(), on: d.member(), arg: d.pick("Foreground", "Background")}
	}},
	{3, func(d *drawer) step {
		return step{do: "edit-object", name: d.name(), on: d.member(), arg: d.pick("ConfigMap", "Secret", "Service")}
	}},
	{3, func(d *drawer) step {
		return step{do: "delete-object", name: d.name(), on: d.member(), arg: d.pick("ConfigMap", "Secret", "Service")}
	}},
	{4, func(d *drawer) step { return step{do: "end-pods", name: d.name(), on: d.member(), n: d.r.IntN(2)} }},
	// Clusters that are away for so long that they count as lost, or answer some requests and not others.
	{3, func(d *drawer) step { return d.fault(long, d.shard.members, "refuse", "hang", "kill") }},
	{3, func(d *drawer) step { return d.fault(long, d.shard.members, "stale", "deaf", "deny", "deny-jobs") }},
	{2, func(d *drawer) step { return d.fault(long, []string{hubName}, "stale", "rival") }},
	{4, (*drawer).estrange},
	{4, (*drawer).confuse},
	// Room that somebody else takes.
	{3, func(d *drawer) step { return step{do: "fill", on: d.member()} }},
	{3, func(d *drawer) step { return step{do: "free", on: d.member()} }},
	// Members that are taken out of use.
	{4, func(d *drawer) step { return step{do: "drain", on: d.member(), arg: d.pick("true", "false", "false")} }},
	{3, (*drawer).dismiss},
	// Runs that have to leave their members.
	{3, (*drawer).stick},
	{3, (*drawer).bereave},
	{2, func(d *drawer) step { return step{do: "declare", name: d.name(), on: d.member()} }},
	{2, func(d *drawer) step {
		return step{do: "failover", name: d.name(), arg: d.pick("ProvenGone", "Manual", "")}
	}},
	{2, func(d *drawer) step { return step{do: "patience", name: d.name(), arg: d.pick("10s", "")} }},
	// On how many members, and who comes first. The names are those that need not stay on one.
	{2, func(d *drawer) step {
		return step{do: "count", name: d.pick(d.shard.names[3:5]...), n: d.r.IntN(4) - 1}
	}},
	{1, func(d *drawer) step { return step{do: "priority", name: d.name(), n: d.r.IntN(3)} }},
}

// Faults last so many draws, and up to four more.
const brief, long = 1, 6

// maxSize is that of elastic MiniClusters.
const maxSize = 3

// drawer draws a schedule.
type drawer struct {
	r      *rand.Rand
	shards []shard
	shard  shard // that the next step is about
	steps  []step
	now    int            // the number of the draw
	broken map[string]int // cluster to the number of the draw before which it is mended
	away   map[string]int // the same of a member that has no node, or is not registered
}

// draw makes the schedule of a seed, of some kinds, for some shards: so many steps, besides those that restore.
func draw(seed uint64, n int, kinds []kind, shards []shard) []step {
	d := &drawer{r: rand.New(rand.NewPCG(seed, 0)), shards: shards, broken: map[string]int{}, away: map[string]int{}}
	for _, d.shard = range shards {
		for _, name := range d.shard.names {
			d.add(d.create(name))
		}
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for d.now = range n {
		d.restore()
		d.comeBack()
		if len(shards) > 1 {
			d.shard = shards[d.r.IntN(len(shards))]
		}
		at := d.r.IntN(total)
		for _, k := range kinds {
			if at -= k.weight; at < 0 {
				if s := k.draw(d); s.do != "" {
					d.add(s)
				}
				break
			}
		}
	}
	return d.steps
}

func (d *drawer) add(s step) {
	s.shard = d.strikes(s)
	// Most things follow on each other at once, as the worst ones do in practice.
	s.wait = time.Duration(d.r.IntN(400)) * time.Millisecond
	if d.r.IntN(5) == 0 {
		s.wait += time.Duration(d.r.IntN(2000)) * time.Millisecond
	}
	d.steps = append(d.steps, s)
}

// strikes is the shard that a step is about: the one that it is drawn for. What happens to its controller happens to those
// of all shards at times.
func (d *drawer) strikes(s step) string {
	controllers := strings.HasSuffix(s.do, "-hub") || s.do == "empty-status" || s.on == hubName
	switch {
	case s.do == "restore", len(d.shards) > 1 && controllers && d.r.IntN(3) == 0:
		return ""
	default:
		return d.shard.key
	}
}

// restore ends the faults that have lasted long enough.
func (d *drawer) restore() {
	for _, cluster := range append(membersOf(d.shards), hubName) {
		if until, ok := d.broken[cluster]; ok && until <= d.now {
			delete(d.broken, cluster)
			d.add(step{do: "restore", on: cluster})
		}
	}
}

// fault breaks a cluster, unless it is broken: then nothing is done.
func (d *drawer) fault(least int, clusters []string, modes ...string) step {
	cluster, mode, last := clusters[d.r.IntN(len(clusters))], d.pick(modes...), least+d.r.IntN(5)
	if d.isBroken(cluster) {
		return step{}
	}
	d.broken[cluster] = d.now + last
	return step{do: "break", on: cluster, arg: mode}
}

// estrange lets a member's cache grow old while runs begin there, and then takes away what could tell better.
func (d *drawer) estrange() step {
	member := d.member()
	if d.isBroken(member) {
		return step{}
	}
	d.broken[member] = d.now + brief + d.r.IntN(5)
	stirred := d.some(3)
	d.clear(member, stirred)
	d.add(step{do: "break", on: member, arg: "stale"})
	d.runLong(stirred)
	d.linger()
	if d.r.IntN(2) == 0 {
		for _, name := range stirred { // then no pods give it away
			d.add(step{do: "suspend", name: name, arg: "true"})
		}
		d.linger()
	}
	d.add(step{do: "worsen", on: member, arg: d.pick("deaf", "deaf-jobs")})
	for _, name := range stirred {
		d.add(step{do: "touch", name: name, arg: fmt.Sprint(len(d.steps))})
	}
	return step{}
}

// confuse stops the hub's cache in the middle of things: what it was about to create on a member is created
// later, and goes again.
func (d *drawer) confuse() step {
	member := d.member()
	if d.isBroken(member) || d.isBroken(hubName) {
		return step{}
	}
	stirred := d.some(2)
	d.clear(member, stirred)
	d.add(step{do: "break", on: member, arg: d.pick("deny", "deny-jobs")})
	d.runLong(stirred)
	d.linger()
	d.broken[hubName] = d.now + long + d.r.IntN(5)
	d.add(step{do: "break", on: hubName, arg: d.pick("stale", "rival")})
	d.add(step{do: "restore", on: member})
	d.linger()
	d.linger()
	for _, name := range stirred {
		d.add(step{do: "delete-job", name: name, on: member, arg: "Background"})
	}
	d.linger()
	return step{}
}

// some are different names, of those that can run anywhere.
func (d *drawer) some(n int) []string {
	out := make([]string, n)
	for i, at := range d.r.Perm(len(d.shard.names) - 1)[:n] {
		out[i] = d.shard.names[at]
	}
	return out
}

// clear makes that nothing keeps these from running on a member next.
func (d *drawer) clear(member string, stirred []string) {
	d.add(step{do: "label", on: member, arg: zones[member]})
	for _, name := range stirred {
		d.add(step{do: "suspend", name: name, arg: "false"})
		d.add(step{do: "place", name: name, arg: zones[member]})
		for _, m := range d.shard.members {
			d.add(step{do: "end-pods", name: name, on: m})
		}
	}
	d.linger()
	for _, name := range stirred { // its removal would have to be seen first
		d.add(step{do: "delete-job", name: name, on: member, arg: "Background"})
	}
	d.linger()
}

// runLong asks for other runs, which go on for longer than what happens next.
func (d *drawer) runLong(stirred []string) {
	for _, name := range stirred {
		d.add(step{do: "lengthen", name: name, n: 10 + d.r.IntN(8)})
	}
}

// linger waits longer after the latest step than others do.
func (d *drawer) linger() { d.steps[len(d.steps)-1].wait += time.Second }

func (d *drawer) isBroken(cluster string) bool {
	_, ok := d.broken[cluster]
	return ok
}

func (d *drawer) pick(values ...string) string { return values[d.r.IntN(len(values))] }
func (d *drawer) name() string                 { return d.pick(d.shard.names...) }
func (d *drawer) member() string               { return d.pick(d.shard.members...) }

// create makes a FleetMiniCluster: arg is its traits, n the seconds that its pods run. Some run for long enough
// that much happens to them.
func (d *drawer) create(name string) step {
	traits := []string{d.pick(traitOne, traitOne, traitAll), d.pick("", traitElastic), d.pick("", "", "", traitFails), d.pick("", traitToken), d.pick("", traitReplace), d.pick("", traitHasty), d.pick("", "", traitBig), d.pick("", "", "", traitTidy)}
	traits = slices.DeleteFunc(traits, func(s string) bool {
		// What cannot begin because of somebody else's Job keeps its room, so it is not one that needs much.
		return s == "" || s == traitBig && taken[name] != ""
	})
	seconds := d.r.IntN(6)
	if d.r.IntN(3) == 0 {
		seconds = 8 + d.r.IntN(8)
	}
	return step{do: "create", name: name, arg: strings.Join(traits, ","), n: seconds}
}

// Traits of a FleetMiniCluster.
const (
	traitOne     = "one"     // numberOfClusters is 1, for all its life
	traitAll     = "all"     // it runs on all members that match
	traitElastic = "elastic" // its size can change
	traitFails   = "fails"   // its pods fail
	traitToken   = "token"   // it uses a Secret that is copied to members
	traitReplace = "replace" // onChange is Replace from the start
	traitHasty   = "hasty"   // its deletion waits two seconds for members that are away
	traitBig     = "big"     // its pods want so much that a member takes one run of its kind
	traitTidy    = "tidy"    // nothing of it stays on a member
)

func TestDraw(t *testing.T) {
	for _, shards := range [][]shard{undivided, divided} {
		one := draw(1, 200, kindsWithLosses(1), shards)
		if !reflect.DeepEqual(one, draw(1, 200, kindsWithLosses(1), shards)) {
			t.Error("the same seed gives another schedule")
		}
		if reflect.DeepEqual(one, draw(2, 200, kindsWithLosses(1), shards)) {
			t.Error("another seed gives the same schedule")
		}
		broken := map[string]bool{}
		for i, s := range one {
			if actions[s.do] == nil {
				t.Errorf("step %d: nothing is known of %q", i, s.do)
			}
			if s.do == "break" || s.do == "restore" {
				if broken[s.on] == (s.do == "break") {
					t.Errorf("step %d: %s", i, s)
				}
				broken[s.on] = s.do == "break"
			}
			for _, of := range []string{s.on, s.name} {
				if key, ok := keyOf(shards, of); ok && s.do != "restore" && key != s.shard {
					t.Errorf("step %d is about %s, which is of shard %q: %s", i, of, key, s)
				}
			}
		}
	}
}
