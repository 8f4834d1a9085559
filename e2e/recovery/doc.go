// Package recovery tests how a hub is lost and made again: with real API servers, real Git and the binary, from each kind of
// backup, and as docs/recovery.md says. What has run is known by the members' audit logs alone.
package recovery
