package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// addRowsInTree returns addRows for the rows of a run of blocks. For each row of the table the
// rows of each block are added in the order of the ids, and these sums in pairs; a block that
// has no row of it adds nothing.
func addRowsInTree[T float](run blockRun) exec.Kernel {
	return func(a *exec.Args) error {
		ids, ct, table := data[int32](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		num, n := a.Out[0].Type.Shape[0], a.Out[0].Type.Shape[1]
		clear(table)
		each := len(ids) / run.of
		ids, ct = ids[run.first*each:][:run.n*each], kernel.From(ct, run.first*each*n)
		start, order := exec.Make[int32](a, num+1), exec.Make[int32](a, len(ids))
		for _, id := range ids {
			start[id+1]++
		}
		for i := range num {
			start[i+1] += start[i]
		}
		next := exec.Make[int32](a, num)
		copy(next, start)
		for i, id := range ids {
			order[next[id]] = int32(i)
			next[id]++
		}
		exec.Share(a, num, 1+cheap/(1+n*(1+len(ids)/max(num, 1))), treeRowsAdded[T]{table, ct, start, order, n, run.n, each,
			exec.RoomsOf[T](a, n*treeDepth(run.n))})
		return nil
	}
}

type treeRowsAdded[T float] struct {
	table, ct    []T
	start, order []int32 // the ids that name row v are order[start[v]:start[v+1]], ascending
	n            int
	blocks, each int // ids of a block
	rooms        *exec.Rooms[T]
}

func (w *treeRowsAdded[T]) Piece(lo, hi int) {
	room := w.rooms.Take()
	for v := lo; v < hi; v++ {
		if list := w.order[w.start[v]:w.start[v+1]]; len(list) > 0 {
			w.sum(w.table[v*w.n:][:w.n], list, 0, w.blocks, room)
		}
	}
}

// sum sets dst, zeros, to the sum of the rows of list, which are those of `count` blocks from
// block `first` on.
func (w *treeRowsAdded[T]) sum(dst []T, list []int32, first, count int, room []T) {
	if count == 1 {
		for _, i := range list {
			vector.Add(dst, dst, w.ct[int(i)*w.n:][:w.n])
		}
		return
	}
	half, cut := count/2, 0
	for cut < len(list) && int(list[cut]) < (first+half)*w.each {
		cut++
	}
	switch cut {
	case 0:
		w.sum(dst, list, first+half, count-half, room)
	case len(list):
		w.sum(dst, list, first, half, room)
	default:
		w.sum(dst, list[:cut], first, half, room)
		other := room[:w.n]
		clear(other)
		w.sum(other, list[cut:], first+half, count-half, room[w.n:])
		vector.Add(dst, dst, other)
	}
}
