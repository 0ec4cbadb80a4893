package lowering

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Tiling prepares to run a kernel tile by tile. It is given the kernel's arguments,
// and of its result the type: there is no memory. What it returns is the kernel's
// until that returns, and its methods may be called at once.
type Tiling func(a *Args) Tiles

// Tiles is a product, as a matrix.
type Tiles interface {
	// Size returns the rows and columns, and how many multiplications an element
	// takes.
	Size() (rows, cols, deep int)
	// Next returns where to cut the rows behind row i: at most `most` behind it, and
	// where all columns of the rows between are multiplied with the same, if it can.
	Next(i, most int) int
	// Tile sets dst, rows of j1-j0 elements side by side, to rows i0 to i1 of
	// columns j0 to j1.
	Tile(dst []byte, i0, i1, j0, j1 int)
}

const (
	// tileBytes is what a tile takes at most: half of a second level cache.
	tileBytes = 512 << 10
	// A tile has about tileCols columns, if there are so many: a chain's kernels are
	// called for each of its rows. tileUnit divides the number: the widest that a
	// product makes in registers.
	tileCols, tileUnit = 512, 48
	// tileWork is the least number of multiplications that is worth a goroutine.
	tileWork = 1 << 21
)

// epilogue is the kernel of a product with an elementwise instruction behind it.
// It is immutable.
type epilogue struct {
	tiles   Tiling
	product int        // number of its arguments
	made    graph.Type // by it
	size    int        // of an element of that
	chain   *chain
	from    []int // of each argument of the chain: that of the kernel, -1 for the product
}

// tileSize returns the most rows and columns of a tile.
func tileSize(rows, cols, size, threads int) (tall, wide int) {
	wide = cols
	if cols > tileCols+tileUnit {
		pieces := (cols + tileCols - 1) / tileCols
		wide = ((cols+pieces-1)/pieces + tileUnit - 1) / tileUnit * tileUnit
	}
	tall = max(tileBytes/size/max(wide, 1)/8*8, 8)
	if share := (rows + threads - 1) / threads; share >= 16 { // so that there are tiles for all
		tall = min(tall, (share+7)/8*8)
	}
	return min(tall, max(rows, 1)), wide
}

func (e *epilogue) kernel(a *Args) error {
	whole := KeepDirty[Args](a) // what the product sees, then the chain
	in, out := whole.In[:0], whole.Out[:0]
	*whole = *a
	whole.In = append(in, a.In[:e.product]...)
	made := e.made
	if n := a.Out[0].Type.Len(); made.Shape[0] > 0 && n != made.Len() { // of the rows in use
		made.Shape = append(Make[int](a, len(made.Shape))[:0], made.Shape...)
		made.Shape[0] = n / (e.made.Len() / e.made.Shape[0])
	}
	whole.Out = append(out, array.Array{Type: made})
	t := e.tiles(whole)

	args := KeepDirty[Args](a)
	in = args.In[:0]
	*args = *a
	args.In = in
	for _, k := range e.from {
		if k < 0 {
			args.In = append(args.In, array.Array{Type: made})
		} else {
			args.In = append(args.In, a.In[k])
		}
	}
	rows, cols, deep := t.Size()
	w := Keep[tileWalk](a)
	tall, wide := tileSize(rows, cols, e.size, max(a.Threads, 1))
	w.epilogue, w.Tiles, w.cols, w.wide = e, t, cols, wide
	w.across = (cols + wide - 1) / max(wide, 1)
	w.cuts = Make[int](a, rows/max(tall, 1)+2+panels(t, rows, tall))[:0]
	for i := 0; i < rows; i = t.Next(i, tall) {
		w.cuts = append(w.cuts, i)
	}
	w.cuts = append(w.cuts, rows)
	w.rooms = RoomsOf[uint8](a, (tall*wide*e.size+63)/64*64)
	w.chunks = e.chain.begin(args)
	a.Share((len(w.cuts)-1)*w.across, 1+tileWork/(1+tall*wide*deep), w)
	err := w.chunks.end()
	clear(whole.In)
	clear(args.In)
	if p, ok := err.(*PartError); ok {
		p.Part++ // the product is the first
	}
	return err
}

// panels returns how many panels the rows are cut in.
func panels(t Tiles, rows, tall int) int {
	n := 0
	for i := 0; i < rows; i = t.Next(i, tall) {
		n++
	}
	return n
}

// tileWalk is the work of an epilogue: tiles, those of one panel of rows after
// another.
type tileWalk struct {
	*epilogue
	Tiles
	cols, wide, across int   // columns, of a tile, and tiles beside each other
	cuts               []int // rows where panels begin, and the end
	rooms              *Rooms[uint8]
	chunks             *chunks
}

func (w *tileWalk) Piece(lo, hi int) {
	k, room := w.chunks.walk(), w.rooms.Take()
	defer k.recover()
	for ; lo < hi && k.err == nil; lo++ {
		i0, i1 := w.cuts[lo/w.across], w.cuts[lo/w.across+1]
		j0 := lo % w.across * w.wide
		j1 := min(j0+w.wide, w.cols)
		w.Tile(room, i0, i1, j0, j1)
		row := j1 - j0
		if row == w.cols { // rows lie side by side in arguments and results, too
			row *= i1 - i0
			i1 = i0 + 1
		}
		for i := i0; i < i1 && k.err == nil; i++ {
			k.tile = tile{room[(i-i0)*row*w.size:], i*w.cols + j0}
			k.run(k.tile.at, k.tile.at+row)
		}
	}
}
