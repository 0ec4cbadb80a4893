package kernel

import (
	"reflect"
	"unsafe"
)

// Dry is a dry run: the code of a product or of attention computes the size of its
// memory, Dry counts it, and nothing is allocated or computed. Operands of a dry run are
// slices without elements. A nil Dry is a real run.
//
// One Dry stands for one thread, which keeps its memory for the next call. So each buffer
// is as long as the longest request.
type Dry struct {
	spaces map[reflect.Type]any
	taken  map[any]int64
}

// Space returns the W of the thread, which holds buffers and is kept between calls.
func Space[W any](d *Dry) *W {
	t := reflect.TypeFor[W]()
	w, ok := d.spaces[t].(*W)
	if !ok {
		w = new(W)
		if d.spaces == nil {
			d.spaces = map[reflect.Type]any{}
		}
		d.spaces[t] = w
	}
	d.count(w, int64(unsafe.Sizeof(*w)))
	return w
}

// Take returns n elements of buf, like Room. In a dry run it returns none and counts
// them.
func Take[T any](d *Dry, buf *[]T, n int) []T {
	if d == nil {
		return Room(buf, n)
	}
	d.count(buf, int64(n)*int64(unsafe.Sizeof(*new(T))))
	return []T{}
}

func (d *Dry) count(what any, bytes int64) {
	if d.taken == nil {
		d.taken = map[any]int64{}
	}
	d.taken[what] = max(d.taken[what], bytes)
}

// Taken returns the bytes taken since the last call of Taken, by buffer or Space. The
// same buffer has the same key in every call.
func (d *Dry) Taken() map[any]int64 {
	taken := d.taken
	d.taken = nil
	return taken
}

// Next returns the start of the piece after the one at `at`, if a range up to end is cut
// at the multiples of size. In a dry run it is the start of the last piece, because the
// pieces in between need the same memory as the first.
func (d *Dry) Next(at, size, end int) int {
	if d == nil {
		return at + size
	}
	return max(at+size, (end-1)/size*size)
}

// Times returns n, the number of runs of a loop over elements, or 0 in a dry run.
func (d *Dry) Times(n int) int {
	if d == nil {
		return n
	}
	return 0
}

// From returns the elements of x from i on. There are none if x has no elements, as in a
// dry run.
func From[T any](x []T, i int) []T { return x[min(i, len(x)):] }
