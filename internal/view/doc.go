// Package view says what people and programs see of a fleet: the values that the dashboard's API sends, and that the
// command line prints. Hub objects and what members have told come in; out go rows, trees, grids, timelines and sentences.
//
// It is pure. Nothing here holds a Secret's value, and every text that comes from Git, members or people is sanitized
// before it is part of a value of this package. Times are absolute; lists are never nil.
package view
