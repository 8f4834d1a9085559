package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Values of Difference.State.
const (
	Same      = "Same"
	Different = "Different"
	Missing   = "Missing"
	Extra     = "Extra"
	Unknown   = "Unknown"
)

// Difference is one object of a MiniCluster on a member, as it should be and as it is.
type Difference struct {
	Member    string `json:"member"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is one of Same, Different, Missing (not on the member), Extra (not wanted there) and Unknown.
	State string `json:"state"`
	// Desired and Live are YAML.
	Desired string `json:"desired,omitempty"`
	Live    string `json:"live,omitempty"`
	// Message says why it is unknown.
	Message string `json:"message,omitempty"`
}

// maxDiff is the most that is read of a comparison, in bytes.
const maxDiff = 64 << 20

// Diff compares what a MiniCluster should have on its members with what is there.
func (c *Client) Diff(ctx context.Context, namespace, name string) ([]Difference, error) {
	body, err := c.get(ctx, namespace, name, "diff", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var answer struct {
		Items []Difference `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(body, maxDiff)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the dashboard's answer cannot be read: %w", err)
	}
	return answer.Items, nil
}
