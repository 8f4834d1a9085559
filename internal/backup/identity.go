package backup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Identity is the data of ConfigMap minifleet-fleet.
type Identity map[string]string

// ID is that of the fleet.
func (i Identity) ID() string { return strings.TrimSpace(i["id"]) }

// Epoch is the one in which the hub leads the fleet, 1 where nothing is said.
func (i Identity) Epoch() (int64, error) {
	text := strings.TrimSpace(i["epoch"])
	if text == "" {
		return 1, nil
	}
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil || epoch < 1 {
		return 0, fmt.Errorf("ConfigMap %s: data.epoch: %q is no integer from 1", v1alpha1.FleetConfigMap, text)
	}
	return epoch, nil
}

// members are the lines NAME CLUSTER-UID EPOCH by name.
func (i Identity) members() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(i["members"]) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out[fields[0]] = strings.Join(fields, " ")
		}
	}
	return out
}

// Led says whether a hub has led the fleet in the epoch that is written there: it has read a member in it.
func (i Identity) Led() bool {
	for _, line := range i.members() {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == strings.TrimSpace(i["epoch"]) {
			return true
		}
	}
	return false
}

// unknownMember is the line of a member of which it is not known what it holds.
const unknownMember = " - 0"

// Next is the identity for a hub that is restored: of a later epoch than any that is known, with all members that the
// fleet may have something on. Those that are registered, or named, and of which nothing is known are asked before
// anything begins. What another hub has put into it stays.
func Next(kept, onHub Identity, epoch int64, members []string) Identity {
	out := maps.Clone(onHub)
	if out == nil {
		out = Identity{}
	}
	for key, value := range kept {
		if _, there := out[key]; !there {
			out[key] = value
		}
	}
	lines := kept.members()
	maps.Copy(lines, onHub.members())
	for _, name := range members {
		if _, known := lines[name]; !known {
			lines[name] = name + unknownMember
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		text.WriteString(lines[name] + "\n")
	}
	out["id"], out["epoch"], out["members"] = kept.ID(), strconv.FormatInt(epoch, 10), text.String()
	return out
}
