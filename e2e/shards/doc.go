// Package shards tests two controllers with a shard each on one hub: with real API servers, real Git and the binary. What each has
// asked of whom is known by the audit logs alone.
package shards
