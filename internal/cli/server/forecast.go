package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxForecasts is the most that is read of forecasts, in bytes.
const maxForecasts = 8 << 20

// Forecasts asks where FleetMiniClusters of a namespace would be placed if they were there. Items are those of the API's
// operation forecast; so are the answers, one for each.
func (c *Client) Forecasts(ctx context.Context, namespace string, items any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"namespace": namespace, "items": items})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("api", "v1", "forecasts").String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, &Unreachable{fmt.Errorf("the dashboard does not answer: %w", err)}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, problemOf(answer, refusedForecast(namespace))
	}
	var out struct {
		Items json.RawMessage `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxForecasts)).Decode(&out); err != nil {
		return nil, fmt.Errorf("the dashboard's answer cannot be read: %w", err)
	}
	return out.Items, nil
}

func refusedForecast(namespace string) refusal {
	return refusal{
		forbidden: fmt.Sprintf("namespace %s: you may not ask where MiniClusters would be placed", namespace), right: "list memberclusters, or to create fleetminiclusters there",
		absent: fmt.Sprintf("namespace %s has no FleetMiniCluster or GitSource, or you may not see it, or the dashboard is of a version without forecasts", namespace),
	}
}
