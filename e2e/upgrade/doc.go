// Package upgrade tests a hub that is upgraded from the previous release while runs are live, queued, suspended and
// finished, and is rolled back again. What must stay is read from the members and their audit logs.
package upgrade
