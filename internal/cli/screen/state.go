package screen

// color is the parameter of an escape sequence.
type color string

const (
	green   color = "32"
	yellow  color = "33"
	red     color = "31"
	blue    color = "34"
	magenta color = "35"
)

// shape is how a class of states is shown, so that they differ without any colour.
type shape struct {
	symbol, ascii string
	color         color
}

var (
	good    = shape{"✓", "+", green}
	active  = shape{"◌", "~", blue}
	waiting = shape{"⧗", ":", yellow}
	bad     = shape{"✗", "x", red}
	paused  = shape{"‖", "=", yellow}
	unknown = shape{"◇", "?", magenta}
)

// shapes of all states: of a FleetMiniCluster, a run, a member, a comparison and a check.
var shapes = map[string]shape{
	"Succeeded": good, "Ready": good, "Synced": good, "Healthy": good, "Same": good, "OK": good,
	"Starting": active, "Running": active, "Stopping": active, "Progressing": active, "Deleting": active,
	"Waiting": waiting, "Pending": waiting, "Missing": waiting, "Connecting": waiting, "OutOfSync": waiting, "Blocked": waiting,
	"Failed": bad, "Cancelled": bad, "Invalid": bad, "Degraded": bad, "Different": bad, "Extra": bad, "NotReady": bad, "Replaced": bad,
	"Suspended": paused, "Drained": paused, "Draining": paused, "Cordoned": paused, "Rejected": paused, "Denied": paused,
	"Unknown": unknown, "Unreachable": unknown,
}

// State shows a state as a symbol and its word; "-" stands for none.
func (s Screen) State(word string) Cell {
	if word == "" {
		return Text("-")
	}
	sh, known := shapes[word]
	if !known {
		sh = unknown
	}
	symbol := sh.symbol
	if !s.UTF8 {
		symbol = sh.ascii
	}
	return Cell{symbol + " " + word, sh.color}
}
