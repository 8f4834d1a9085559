package view

import "regexp"

// Sees says whether a reader may see the MiniClusters of a namespace. nil is a reader who sees all.
type Sees func(namespace string) bool

func (s Sees) has(namespace string) bool { return s == nil || s(namespace) }

// others are what texts of a status say of MiniClusters and objects of other namespaces. The texts are cut to a length, so
// any end may be missing. The first group is the namespace, the second what follows its name.
var others = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{
		regexp.MustCompile(`its room is kept for ([^ /,;]+)(?:/[^ ,;]*)?(?:, which waits(?: for(?: it(?: and(?: comes(?: first(?: \([^)]*\)?)?)?)?)?)?)?)?`),
		"its room is kept for another MiniCluster, which comes first",
	},
	{regexp.MustCompile(`(?:belongs to|is part of) FleetMiniCluster ([^ /:;]+)(?:/[^ :;]*)?`), "belongs to another FleetMiniCluster"},
	{regexp.MustCompile(`is the copy of ([^ /:;]+)(?:/[^ :;]*)?`), "is the copy of another object"},
}

// HideOthers takes out of a text of a status who else is named in it that the reader may not see.
func HideOthers(text string, sees Sees) string {
	if sees == nil {
		return text
	}
	for _, o := range others {
		text = o.pattern.ReplaceAllStringFunc(text, func(found string) string {
			if sees(o.pattern.FindStringSubmatch(found)[1]) {
				return found
			}
			return o.instead
		})
	}
	return text
}
