package ring

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
)

// laneBytes is the smallest number of bytes for which MLX uses another lane.
const laneBytes = 256 << 10

// padBytes is the size of MLX's buffer for reductions of fewer elements than ranks.
const padBytes = 1024

// arithmetic combines two elements of a type.
type arithmetic struct {
	op reduce.Op
	d  graph.DType
}

// reduce combines the ranks' data in place.
func (o *operation) reduce(data []byte, a arithmetic) error {
	n, size := o.m.Size(), a.d.Size()
	count := len(data) / size
	if count < n { // one element is a segment
		padded := make([]byte, n*size)
		copy(padded, data)
		if len(o.m.scratch) == 0 {
			o.m.scratch = make([]*scratch, 1)
		}
		err := o.lane(0, -1).reduce(padded, a)
		copy(data, padded)
		return err
	}
	lanes := max(min(2*len(o.m.right), len(data)/(n*laneBytes)), 1)
	part := (count + lanes - 1) / lanes
	return o.lanes(lanes, func(i int, l lane) error {
		return l.reduce(data[i*part*size:min(count, (i+1)*part)*size], a)
	})
}

// reduce sends the segments around the ring twice. In the first round every rank adds
// its own elements, so that in the end each rank has the total of one segment. In the
// second round the totals go to all ranks.
func (l lane) reduce(data []byte, a arithmetic) error {
	n, size := l.o.m.Size(), a.d.Size()
	count := len(data) / size
	length := (count + n - 1) / n
	segment := func(s int) []byte {
		return data[min(s*length, count)*size : min((s+1)*length, count)*size]
	}
	at := l.o.m.rank
	first := segment(at)
	steps := make([]step, 2*(n-1))
	for i := range steps {
		at = (at + l.dir + n) % n
		steps[i].to = segment(at)
		if i < n-1 {
			steps[i].combine = &a
		} else { // this step overwrites a segment that an earlier step sends: wait until it is sent, in case a wrong peer is ahead
			steps[i].after = i - (n - 1) + 1
		}
	}
	return l.around(first, steps)
}

// gather sends the ranks' blocks around the ring once. dst holds this rank's block
// already.
func (o *operation) gather(dst []byte) error {
	n := o.m.Size()
	block := len(dst) / n
	lanes := max(min(2*len(o.m.right), block/laneBytes), 1)
	part := (block + lanes - 1) / lanes
	return o.lanes(lanes, func(i int, l lane) error {
		piece := func(rank int) []byte { return dst[rank*block:][i*part : min(block, (i+1)*part)] }
		at := o.m.rank
		steps := make([]step, n-1)
		for k := range steps {
			at = (at + l.dir + n) % n
			steps[k].to = piece(at)
		}
		return l.around(piece(o.m.rank), steps)
	})
}
