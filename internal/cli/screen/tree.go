package screen

import (
	"io"
	"strings"
)

// Node is a line of a tree, and what is below it.
type Node struct {
	Cells    []Cell
	Children []*Node
}

// NewNode returns a node that shows these cells in a line.
func NewNode(cells ...Cell) *Node { return &Node{Cells: cells} }

// Add adds a node below this one and returns it.
func (n *Node) Add(cells ...Cell) *Node {
	child := NewNode(cells...)
	n.Children = append(n.Children, child)
	return child
}

// branches are how a tree is drawn.
type branches struct{ middle, last, along, none string }

var (
	lines = branches{"├─ ", "└─ ", "│  ", "   "}
	ascii = branches{"|- ", "`- ", "|  ", "   "}
)

// Tree prints a node and all that is below it.
func (s Screen) Tree(root *Node) error {
	draw := ascii
	if s.UTF8 {
		draw = lines
	}
	var b strings.Builder
	s.node(&b, root, "", "", draw)
	_, err := io.WriteString(s.Out, b.String())
	return err
}

func (s Screen) node(b *strings.Builder, n *Node, before, below string, draw branches) {
	b.WriteString(before)
	shown := 0
	for _, cell := range n.Cells {
		if cell.Text == "" {
			continue
		}
		if shown++; shown > 1 {
			b.WriteString("  ")
		}
		b.WriteString(s.Paint(cell))
	}
	b.WriteByte('\n')
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			s.node(b, child, below+draw.last, below+draw.none, draw)
		} else {
			s.node(b, child, below+draw.middle, below+draw.along, draw)
		}
	}
}
