// Package e2e tests the whole system as users meet it: the real binary as a process, a hub and three
// members with real API servers and the real Job controller, a real Git server. What MiniFleet did is read
// from the API servers' audit logs, not from what it says.
package e2e
