// Package gitsource turns a Git repository into MiniFleet objects, in two steps: fetch reads the
// manifests of one commit over HTTP (IO), and parse turns manifests into objects and per-file problems
// (pure). This package holds the one value that fetch gives to parse.
package gitsource

// File is one manifest of a commit.
type File struct {
	// Path is relative to the root of the repository, with forward slashes.
	Path string
	// Data is the content; nil when Problem is set.
	Data []byte
	// Problem says, for people, why the content was not read: it is over the size limit, a symbolic
	// link, a submodule. Whatever this file declared before must then be kept.
	Problem string
}
