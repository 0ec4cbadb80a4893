package nn

import (
	"fmt"
	"strconv"
	"strings"
)

// Tree groups parameters by the parts of a model, following the dots in their names.
type Tree struct {
	Name        string  // relative to the enclosing part; "" for the whole model
	Param       *Param  // set if the part is a parameter
	Parts       []*Tree // in the order of declaration
	All, Active int     // number of weights, and those used per token; see Count
}

// NewTree groups parameters by the dot-separated parts of their names. topK is passed to Count.
func NewTree(params []Param, topK int) *Tree {
	root := &Tree{}
	for i := range params {
		all, active := Count(params[i:i+1], topK)
		at := root
		at.All, at.Active = at.All+all, at.Active+active
		for name := range strings.SplitSeq(params[i].Name, ".") {
			at = at.part(name)
			at.All, at.Active = at.All+all, at.Active+active
		}
		at.Param = &params[i]
	}
	return root
}

func (t *Tree) part(name string) *Tree {
	for _, p := range t.Parts {
		if p.Name == name {
			return p
		}
	}
	p := &Tree{Name: name}
	t.Parts = append(t.Parts, p)
	return p
}

// String lists the parts, one per line, with name, number of weights and, for a parameter, its shape. Consecutive
// numbered parts with equal contents, such as layers, share one line, which gives their count.
func (t *Tree) String() string {
	var b strings.Builder
	t.write(&b, "")
	return b.String()
}

func (t *Tree) write(b *strings.Builder, indent string) {
	for i := 0; i < len(t.Parts); i++ {
		p, n := t.Parts[i], 1
		if _, err := strconv.Atoi(p.Name); err == nil {
			for i+n < len(t.Parts) && alike(p, t.Parts[i+n]) {
				n++
			}
		}
		name := p.Name
		if n > 1 {
			name = fmt.Sprintf("%s to %s, each", name, t.Parts[i+n-1].Name)
		}
		for len(p.Parts) == 1 && p.Param == nil { // a name containing dots
			p = p.Parts[0]
			name += "." + p.Name
		}
		fmt.Fprintf(b, "%s%s  %d", indent, name, p.All)
		if p.Active != p.All {
			fmt.Fprintf(b, ", of which a token uses %d", p.Active)
		}
		if p.Param != nil {
			fmt.Fprintf(b, "  %s", p.Param.Type)
		}
		b.WriteByte('\n')
		p.write(b, indent+"  ")
		i += n - 1
	}
}

// alike reports whether two parts hold parameters of equal names, types and sizes.
func alike(a, b *Tree) bool {
	if (a.Param == nil) != (b.Param == nil) || len(a.Parts) != len(b.Parts) || a.Active != b.Active {
		return false
	}
	if a.Param != nil && !a.Param.Type.Equal(b.Param.Type) {
		return false
	}
	for i := range a.Parts {
		if a.Parts[i].Name != b.Parts[i].Name || !alike(a.Parts[i], b.Parts[i]) {
			return false
		}
	}
	return true
}
