package ring

import (
	"errors"
	"sync"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
)

// lane is one of the rings sharing an operation. A part of the data goes around it, in
// one direction, over one connection to each neighbour.
type lane struct {
	o    *operation
	send *wire
	recv *wire
	dir  int // -1 sends to the rank after, +1 to the rank before
	tmp  *scratch
}

// scratch is the memory of a lane.
type scratch struct {
	packet [packetBytes]byte
	acc    reduce.Accumulator
}

// lanes calls f for n lanes at once and returns when all calls have returned. Lane i
// uses connection i/2, in the direction of MLX's lane i.
func (o *operation) lanes(n int, f func(i int, l lane) error) error {
	m := o.m
	for len(m.scratch) < n {
		m.scratch = append(m.scratch, nil)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		l := o.lane(i, 1-2*(i%2))
		if i == n-1 {
			errs[i] = f(i, l)
			continue
		}
		wg.Go(func() { errs[i] = f(i, l) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) lane(i, dir int) lane {
	m := o.m
	if m.scratch[i] == nil {
		m.scratch[i] = new(scratch)
	}
	l := lane{o, m.left[i/2], m.right[i/2], dir, m.scratch[i]}
	if dir < 0 {
		l.send, l.recv = l.recv, l.send
	}
	return l
}

// step receives a segment into to. If combine is set, it combines the received elements
// with those in to. The step begins once the first after segments of the lane have been
// sent.
type step struct {
	to      []byte
	combine *arithmetic
	after   int
}

// packet is a part of a segment sent by a lane.
type packet struct {
	b    []byte
	last bool // the last packet of its segment
}

var errUnsent = errors.New("ring: a segment did not leave") // the sending goroutine has the reason

// around sends the segment first. At the same time it receives a segment in each step,
// and sends on the result of every step but the last. A packet is sent on as soon as
// it is complete.
func (l lane) around(first []byte, steps []step) error {
	var receive, packets int
	for _, s := range steps {
		receive += len(s.to)
		packets += len(s.to)/packetBytes + 1
	}
	l.recv.toReceive.Add(int64(receive))
	l.send.toSend.Add(int64(len(first) + receive - len(steps[len(steps)-1].to)))
	queue := make(chan packet, packets+1) // never full, or the ring could wait for itself
	queue <- packet{first, true}
	left := make(chan struct{}, len(steps))
	var sendErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(left)
		for p := range queue {
			if sendErr = l.o.write(l.send, p.b); sendErr != nil {
				return
			}
			if p.last {
				left <- struct{}{}
			}
		}
	})
	err := l.receive(steps, queue, left)
	close(queue)
	wg.Wait()
	if sendErr != nil {
		return sendErr
	}
	return err
}

func (l lane) receive(steps []step, queue chan<- packet, left <-chan struct{}) error {
	l.recv.in.Lock()
	defer l.recv.in.Unlock()
	gone := 0
	for i, s := range steps {
		for ; gone < s.after; gone++ {
			if _, ok := <-left; !ok {
				return errUnsent
			}
		}
		for rest := s.to; ; {
			b := rest[:min(len(rest), packetBytes)]
			rest = rest[len(b):]
			in := b
			if s.combine != nil {
				in = l.tmp.packet[:len(b)]
			}
			if err := l.o.read(l.recv, in); err != nil {
				return err
			}
			if s.combine != nil {
				l.tmp.acc.Pair(b, s.combine.op, s.combine.d, in)
			}
			if i < len(steps)-1 {
				queue <- packet{b, len(rest) == 0}
			}
			if len(rest) == 0 {
				break
			}
		}
	}
	return nil
}

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
	at := l.o.m.Index
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
		at := o.m.Index
		steps := make([]step, n-1)
		for k := range steps {
			at = (at + l.dir + n) % n
			steps[k].to = piece(at)
		}
		return l.around(piece(o.m.Index), steps)
	})
}
