package parse

// Unreadable says why data must not be given to a parser of YAML, which cannot be interrupted; empty if it may be. Other
// readers of hostile YAML ask it as well.
func Unreadable(data []byte) string { return unreadable(data) }

// MostValues is about how many values data has at most, before aliases are expanded: each takes some 300 bytes while it is
// read.
func MostValues(data []byte) int { return mostValues(data) }
