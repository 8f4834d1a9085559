// Package gitsource turns a Git repository into MiniFleet objects, in steps: fetch reads the
// manifests of one commit (IO), overlay finds what kustomize needs to build a folder (pure) and overlay/build builds it
// (IO), and parse turns manifests into objects and per-file problems (pure). This package holds the one value that these
// give to parse.
package gitsource

// File is one manifest of a commit.
type File struct {
	// Path is relative to the root of the repository, with forward slashes.
	Path string
	// Data is the content; nil when Problem is set, and where whoever asked has the content of Blob already.
	Data []byte
	// Blob is the hash of the content in hexadecimal digits; empty where it is not known.
	Blob string
	// Problem says, for people, why the content was not read: it is over the size limit, a symbolic
	// link, a submodule. Whatever this file declared before must then be kept.
	Problem string
	// Findings are told of the file besides what its content shows. With one that is no Warning, whatever the file
	// declared before must be kept.
	Findings []Finding
	// Origins are set where Data was built by kustomize, and Path is the kustomization file: for each document of Data, in
	// order, the file that it comes from. Lines of Data then mean nothing to anybody.
	Origins []string
}

// Finding is something that is wrong with a file, or worth a warning.
type Finding struct {
	// Line in the file, from 1; 0 where it is not known.
	Line int
	// Field of the file, where it is known.
	Field string
	// Message says what is wrong and how to correct it.
	Message string
	// Warning says that the file is used nevertheless.
	Warning bool
}
