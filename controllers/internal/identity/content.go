package identity

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Keys of the ConfigMap's data.
const (
	keyID      = "id"
	keyEpoch   = "epoch"
	keyMembers = "members"
)

// maxEpoch is far more than people raise it to.
const maxEpoch = 1_000_000_000

// content is what the ConfigMap holds.
type content struct {
	id      string
	epoch   int64
	members map[string]membership
	// listed says that the members are in it, be it that there are none.
	listed bool
}

// membership is a cluster under the name of a member, and the latest epoch in which all was read that it holds.
type membership struct {
	uid   string
	epoch int64
}

// unknownUID stands for the UID of a cluster that was never reached.
const unknownUID = "-"

var validID = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// parse reads the data of the ConfigMap. Its errors begin with the key.
func parse(data map[string]string) (content, error) {
	c := content{id: strings.TrimSpace(data[keyID]), epoch: 1, members: map[string]membership{}}
	if !validID.MatchString(c.id) {
		return c, fmt.Errorf("data.%s: %q is no identity of a fleet: put in the one that it had before, up to 63 letters, digits and -_., or delete the ConfigMap if this is a new fleet", keyID, data[keyID])
	}
	if text := strings.TrimSpace(data[keyEpoch]); text != "" {
		epoch, err := strconv.ParseInt(text, 10, 64)
		if err != nil || epoch < 1 || epoch > maxEpoch {
			return c, fmt.Errorf("data.%s: %q is no integer from 1 to %d: put in the highest epoch that members say, or one more if this hub takes over from another", keyEpoch, text, maxEpoch)
		}
		c.epoch = epoch
	}
	var err error
	_, c.listed = data[keyMembers]
	c.members, err = parseMembers(data[keyMembers])
	return c, err
}

func parseMembers(text string) (map[string]membership, error) {
	out := map[string]membership{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		invalid := fmt.Errorf("data.%s, line %d: %q is not NAME CLUSTER-UID EPOCH: correct the line, or remove it if nothing of the fleet is live on that member", keyMembers, n, strings.TrimSpace(line))
		if len(fields) != 3 {
			return nil, invalid
		}
		epoch, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || epoch < 0 || epoch > maxEpoch {
			return nil, invalid
		}
		out[fields[0]] = membership{uid: fields[1], epoch: epoch}
	}
	return out, nil
}

// data is the ConfigMap's data with what is known now. Keys of others stay.
func (c content) data(before map[string]string) map[string]string {
	out := maps.Clone(before)
	if out == nil {
		out = map[string]string{}
	}
	out[keyID], out[keyEpoch] = c.id, strconv.FormatInt(c.epoch, 10)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		fmt.Fprintf(&lines, "%s %s %d\n", name, c.members[name].uid, c.members[name].epoch)
	}
	out[keyMembers] = lines.String()
	return out
}

// unasked are the members that were not read in an epoch, sorted, without those that are declared to have nothing.
func (c content) unasked(epoch int64, declared map[string]bool) []string {
	var out []string
	for name, m := range c.members {
		if m.epoch < epoch && !declared[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
