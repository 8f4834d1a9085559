// Package soak tests the whole system with schedules of faults and edits that are drawn at random from a
// seed. While a schedule goes on, and after it, the promises of the design must hold; whether they did is
// computed from the API servers' audit logs (history, invariants) and not from what MiniFleet says.
package soak
