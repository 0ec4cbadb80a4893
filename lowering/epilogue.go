package lowering

import (
	"slices"
	"strings"
)

// epilogues joins products with the elementwise instruction that alone reads what
// they make: it is done to each tile of the product while that is in the cache, and
// the product is not stored. Bits do not change: a tile is rounded to the product's
// element type before.
//
// The joined instruction stands where the elementwise one stood, unless the product's
// arguments would live longer for that and take more memory than the product does, or
// a collective stands in between.
func (p *Plan) epilogues(opts Options) {
	from := opts.Tile
	if from == 0 {
		from = TileFrom
	}
	gone := make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- { // of two products the one made last: the other need not wait
		if j, ok := p.epilogueOf(i, from); ok {
			p.Instrs[j] = p.withEpilogue(&p.Instrs[i], &p.Instrs[j], opts.Chunk)
			gone[i] = true
			p.Instrs[i].In, p.Instrs[i].Out = nil, nil
		}
	}
	kept := p.Instrs[:0]
	for i, in := range p.Instrs {
		if !gone[i] {
			kept = append(kept, in)
		}
	}
	p.Instrs = kept
}

// TileFrom is from how many bytes on products have epilogues. One gain was measured: a
// product of 64 MiB with bias and residual took 38.5 ms in the place of 43.0; others
// from 32 MiB on took as long as without, or longer. Smaller products, which stay in a third
// level cache of 32 MiB and are read from there in time, took 1 to 8% longer in tiles,
// which copy what rows are multiplied with more often. What tiles save for certain is
// the memory of the product.
const TileFrom = 32 << 20

// epilogueOf returns the instruction that instruction i, a product of at least so many
// bytes, is joined with.
func (p *Plan) epilogueOf(i int, from int64) (j int, ok bool) {
	in := &p.Instrs[i]
	if in.Tiles == nil || len(in.Out) != 1 {
		return 0, false
	}
	made := p.Bufs[in.Out[0]]
	if from < 0 || made.Type.Bytes() < from || made.Storage != Temp || made.Type.Rank() == 0 || made.Type.Len() == 0 {
		return 0, false
	}
	r := p.Root(in.Out[0])
	j = -1
	for k := range p.Instrs {
		if !slices.ContainsFunc(p.inputs(&p.Instrs[k]), func(b int) bool { return p.Root(b) == r }) {
			continue
		}
		if j >= 0 || k < i {
			return 0, false // others read it
		}
		j = k
	}
	if j < 0 || !p.follows(&p.Instrs[j], in, r) {
		return 0, false
	}
	var held int64
	for _, b := range p.roots(p.inputs(in)) {
		if p.Bufs[b].Storage != Temp || slices.ContainsFunc(p.Instrs[j:], func(x Instr) bool {
			return slices.ContainsFunc(p.inputs(&x), func(c int) bool { return p.Root(c) == b })
		}) {
			continue
		}
		held += padded(p.Bufs[b].Type.Bytes())
	}
	moved := slices.ContainsFunc(p.Instrs[i+1:j], func(x Instr) bool { return x.Collective() })
	return j, !moved && (j == i+1 || held <= padded(made.Type.Bytes()))
}

// follows reports whether an instruction is elementwise in r, which the product makes.
func (p *Plan) follows(e, product *Instr, r int) bool {
	parts := e.Parts
	if len(parts) == 0 {
		parts = []Instr{*e}
	}
	if e.Product > 0 || p.zones(e) != p.zones(product) || e.Align != product.Align {
		return false
	}
	n := p.Bufs[product.Out[0]].Type.Len()
	for k := range parts {
		part := &parts[k]
		if c, ok := p.class(part); !ok && len(e.Parts) == 0 || ok && c.n != n {
			return false
		}
		for _, b := range part.In {
			if p.Root(b) == r && (part.Repeat > 0 || p.Bufs[b].Type.Len() != n || p.Bufs[b].Type.DType != p.Bufs[r].Type.DType) {
				return false
			}
		}
	}
	return true
}

// withEpilogue returns the instruction that is both.
func (p *Plan) withEpilogue(product, e *Instr, chunk int) Instr {
	r := p.Root(product.Out[0])
	own := len(product.In) - len(product.Kept)
	in := Instr{InPlace: e.InPlace, Pos: e.Pos, Zones: product.Zones, Align: product.Align, Divide: product.Divide,
		Out: e.Out, In: slices.Clone(product.In[:own]), Product: own, Kept: product.Kept}
	tail := *e
	if len(e.Parts) == 0 {
		tail.Parts = []Instr{*e}
	}
	c := p.chainOf(&tail, chunk)
	c.step = max(c.step, tileUnit)
	x := &epilogue{tiles: product.Tiles, product: own, size: p.Bufs[r].Type.DType.Size(), made: p.Bufs[product.Out[0]].Type, chain: c}
	for k, b := range tail.In {
		if p.Root(b) == r {
			c.ofTile(k)
			x.from = append(x.from, -1)
			continue
		}
		x.from = append(x.from, len(in.In))
		in.In = append(in.In, b)
	}
	x.slotted = c.width + x.size // the product's elements are put in order behind the others'
	for k, b := range tail.In {
		if x.slots = append(x.slots, -1); x.from[k] >= 0 && c.inOrder(k) {
			x.slots[k] = x.slotted
			x.slotted += p.Bufs[b].Type.DType.Size()
		}
	}
	in.withCopies(product)
	p.Bufs[r].Storage = Chunk
	in.Parts = append([]Instr{*product}, tail.Parts...)
	in.Name = "fused(" + product.Name + ", " + strings.TrimSuffix(strings.TrimPrefix(e.Name, "fused("), ")") + ")"
	in.Kernel, in.Scratch, in.Workspace = x.kernel, int64(x.slotted*c.step), x.workspace(product.Workspace.Shared)
	return in
}

// inOrder reports whether a part reads argument k element by element.
func (c *chain) inOrder(k int) bool {
	for i := range c.parts {
		for _, o := range c.parts[i].in {
			if o.place == ofArgument && o.index == k && !o.whole {
				return true
			}
		}
	}
	return false
}

// ofTile has argument k read from the tile.
func (c *chain) ofTile(k int) {
	for i := range c.parts {
		for j := range c.parts[i].in {
			if o := &c.parts[i].in[j]; o.place == ofArgument && o.index == k {
				o.place = ofTile
			}
		}
	}
}
