package lowering

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Tiling is how to run a kernel tile by tile.
type Tiling struct {
	// Rows, Cols and Deep are Tiles.Size as far as it is known before the kernel runs.
	Rows, Cols, Deep int
	// Need returns what a thread takes that makes tiles of that size, as
	// Workspace.OnThreads does.
	Need func(rows, cols int) map[string]int64
	// Begin is given the kernel's arguments, and of its result the type: there is no
	// memory. What it returns is the kernel's until that returns, and its methods may
	// be called at once.
	Begin func(a *Args) Tiles
}

// Tiles is a product, as a matrix.
type Tiles interface {
	// Size returns the rows and columns, and how many multiplications an element
	// takes.
	Size() (rows, cols, deep int)
	// Next returns where to cut the rows behind row i: at most `most` behind it, and
	// where all columns of the rows between are multiplied with the same, if it can.
	Next(i, most int) int
	// Tile sets dst, rows that begin `pitch` elements apart, to rows i0 to i1 of
	// columns j0 to j1.
	Tile(dst []byte, pitch, i0, i1, j0, j1 int)
}

const (
	// tileBytes is what a tile takes at most: half of a second level cache.
	tileBytes = 512 << 10
	// A tile has at most tileRows rows: as many are multiplied with one copy of the
	// columns, which takes as long as a dozen do. tileUnit divides its columns: what
	// products make in registers divides it, 48 or 32, so that tiles can be made of
	// copies that are kept (see kernel.PanelUnit).
	tileRows, tileUnit = 384, 96
	// tileWork is the least number of multiplications that is worth a goroutine.
	tileWork = 1 << 21
)

// epilogue is the kernel of a product with an elementwise instruction behind it.
// It is immutable.
type epilogue struct {
	tiles   *Tiling
	product int        // number of its arguments
	made    graph.Type // by it
	size    int        // of an element of that
	chain   *chain
	from    []int // of each argument of the chain: that of the kernel, -1 for the product
	slots   []int // of each argument of the chain: where it is put in order, -1 for nowhere
	slotted int   // the width of all slots, as chain.width
}

// tileSize returns the most rows and columns of a tile, of elements of that size. A
// row is at most `step` long, unless it is all of the columns.
func tileSize(rows, cols, size, step, threads int) (tall, wide int) {
	tall = tileRows
	if rows == 0 || cols == 0 {
		return 1, 1
	}
	if share := (rows + threads - 1) / threads; share >= 16 { // so that there are tiles for all
		tall = min(tall, share)
	}
	tall = min(evenly(rows, tall, 8), rows)
	wide = min(evenly(cols, max(min(tileBytes/size/tall, step/tileUnit*tileUnit), tileUnit), tileUnit), cols)
	if wide == cols { // rows are side by side
		tall = min(evenly(rows, max(tall, tileBytes/size/cols), 8), rows)
		if share := (rows + threads - 1) / threads; share >= 16 {
			tall = min(tall, (share+7)/8*8)
		}
	}
	return tall, wide
}

// evenly cuts n into as few equal pieces as are not longer than most, and returns
// their length as a multiple of unit.
func evenly(n, most, unit int) int {
	pieces := max((n+most-1)/most, 1)
	return ((n+pieces-1)/pieces + unit - 1) / unit * unit
}

// tileGrain returns how many tiles are worth a goroutine.
func tileGrain(tall, wide, deep int) int { return 1 + tileWork/(1+tall*wide*deep) }

// workspace is that of the kernel, for arguments and results that take so many bytes
// of Args.Scratch.
func (e *epilogue) workspace(shared int64) Workspace {
	t := e.tiles
	return Workspace{Shared: shared, OnThreads: func(threads int) (map[string]int64, int) {
		tall, wide := tileSize(t.Rows, t.Cols, e.size, e.chain.step, threads)
		n := (t.Rows + tall - 1) / tall * ((t.Cols + wide - 1) / wide)
		each := map[string]int64{"tiles": int64(tall * wide * e.size)}
		for _, i := range [2]int{tall, t.Rows % tall} {
			for _, j := range [2]int{wide, t.Cols % wide} {
				for buf, bytes := range t.Need(i, j) {
					each[buf] = max(each[buf], bytes)
				}
			}
		}
		return each, min(threads, max(n/tileGrain(tall, wide, t.Deep), 1))
	}}
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
	t := e.tiles.Begin(whole)

	args := KeepDirty[Args](a)
	in = args.In[:0]
	*args = *a
	args.In = in
	w := Keep[tileWalk](a)
	w.home = e.home(a)
	for _, k := range e.from {
		if k < 0 && w.home != nil {
			args.In = append(args.In, array.Over(made, w.home))
		} else if k < 0 {
			args.In = append(args.In, array.Array{Type: made})
		} else {
			args.In = append(args.In, a.In[k])
		}
	}
	rows, cols, deep := t.Size()
	tall, wide := tileSize(rows, cols, e.size, e.chain.step, max(a.Threads, 1))
	w.epilogue, w.Tiles, w.cols, w.wide = e, t, cols, wide
	w.across = (cols + wide - 1) / max(wide, 1)
	w.cuts = Make[int](a, rows/max(tall, 1)+2+panels(t, rows, tall))[:0]
	for i := 0; i < rows; i = t.Next(i, tall) {
		w.cuts = append(w.cuts, i)
	}
	w.cuts = append(w.cuts, rows)
	if w.home == nil {
		w.rooms = RoomsOf[uint8](a, (tall*wide*e.size+63)/64*64)
	}
	w.chunks = e.chain.begin(args)
	a.Share((len(w.cuts)-1)*w.across, tileGrain(tall, wide, deep), w)
	err := w.chunks.end()
	clear(whole.In)
	clear(args.In)
	if p, ok := err.(*PartError); ok {
		p.Part++ // the product is the first
	}
	return err
}

// home returns the memory of a result in which the product can be made, nil if there
// is none: of as large elements, and of no argument, which must still be read. What is
// written there anyway need not be fetched into the cache twice.
func (e *epilogue) home(a *Args) []byte {
	for _, out := range a.Out {
		mem := out.Bytes()
		if out.Type.DType.Size() == e.size && len(mem) > 0 && !shared(out, a.In) {
			return mem
		}
	}
	return nil
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
	cols, wide, across int    // columns, of a tile, and tiles beside each other
	cuts               []int  // rows where panels begin, and the end
	home               []byte // of the product; nil if tiles are made in rooms
	rooms              *Rooms[uint8]
	chunks             *chunks
}

func (w *tileWalk) Piece(lo, hi int) {
	k := w.chunks.walk()
	defer k.recover()
	var room []byte
	if w.home == nil {
		room = w.rooms.Take()
	}
	for ; lo < hi && k.err == nil; lo++ {
		i0, i1 := w.cuts[lo/w.across], w.cuts[lo/w.across+1]
		j0 := lo % w.across * w.wide
		j1 := min(j0+w.wide, w.cols)
		made, pitch := room, j1-j0
		if w.home != nil {
			made, pitch = w.home[(i0*w.cols+j0)*w.size:], w.cols
		}
		w.Tile(made, pitch, i0, i1, j0, j1)
		if j1-j0 == w.cols { // rows lie side by side in arguments and results, too
			k.box = box{made: made, at: i0 * w.cols}
			k.run(i0*w.cols, i1*w.cols)
			continue
		}
		k.box = box{row: j1 - j0, cols: w.cols, slots: w.slots}
		k.tile(w.epilogue, made, pitch, i0, i1, j0)
	}
}

// box is the part of a tile that a chain runs on: of rows that do not lie side by side
// in arguments and results. Its elements do in slots.
type box struct {
	made  []byte // by the product
	at    int    // number of the first element there
	rows  int    // 0 if rows do lie side by side
	row   int    // elements of a row
	cols  int    // of the whole
	first int    // number of the first element in the whole
	slots []int  // of arguments, as in chain.at
}

// copyRows copies the box's rows from the whole to a slot, or back.
func (b *box) copyRows(whole, slot []byte, size int, in bool) {
	n := b.row * size
	for i := range b.rows {
		w := whole[(b.first+i*b.cols)*size:][:n]
		s := slot[i*n:][:n]
		if in {
			copy(s, w)
		} else {
			copy(w, s)
		}
	}
}

func (b *box) repeat(dst, src []byte, size, inner int) {
	n := b.row * size
	for i := range b.rows {
		repeat(dst[i*n:(i+1)*n], src, size, inner, b.first+i*b.cols)
	}
}

// tile runs the chain on rows i0 to i1 of the box's columns, the first of which is j0,
// as many rows at a time as there is room for.
func (w *walk) tile(e *epilogue, made []byte, pitch, i0, i1, j0 int) {
	c, a := w.chain, w.chunks.args
	w.begin()
	w.room(e.slotted * c.step)
	some := max(c.step/w.box.row, 1)
	for i := i0; i < i1; i += some {
		b := &w.box
		b.rows, b.first, b.made = min(some, i1-i), i*b.cols+j0, made[(i-i0)*pitch*e.size:]
		if pitch != b.row {
			slot := w.mem[c.width*c.step:]
			for r := range b.rows {
				copy(slot[r*b.row*e.size:(r+1)*b.row*e.size], b.made[r*pitch*e.size:])
			}
			b.made = slot
		}
		n := b.rows * b.row
		w.shape[0] = n
		for k, at := range b.slots {
			if at >= 0 {
				b.copyRows(a.In[k].Bytes(), w.mem[at*c.step:], a.In[k].Type.DType.Size(), true)
			}
		}
		for k := range c.parts {
			if l := &c.parts[k]; !l.once || n > w.done {
				w.part = k
				if w.err = w.link(l, 0, n); w.err != nil {
					return
				}
			}
		}
		w.done = max(w.done, n)
		for k := range a.Out {
			b.copyRows(a.Out[k].Bytes(), w.mem[c.at[k+len(c.slots)-len(a.Out)]*c.step:], a.Out[k].Type.DType.Size(), false)
		}
	}
}
