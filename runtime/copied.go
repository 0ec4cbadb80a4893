package runtime

import "github.com/gomoe/gomoe/array"

// copied is a copy of an input in memory visible to the device. It is needed while the
// caller gives an array in other memory.
type copied struct {
	piece
	of contents
}

// bindInput binds p to buffer b. If p is not visible to the device, the rank makes a
// copy, which it keeps while the caller gives the same array.
func (r *rank) bindInput(b int, p piece, now contents) error {
	r.contents[b] = now
	c := &r.copies[b]
	if r.remote == nil || r.spare.heap.knows(p) {
		r.drop(c)
		r.bufs[b], r.from[b] = p.Array, p.from
		return nil
	}
	if r.remote.donated[b] { // the step owns the memory afterwards
		r.drop(c)
		q, err := r.copy(p.Array)
		r.bufs[b], r.from[b] = q.Array, q.from
		return err
	}
	if c.from == nil {
		q, err := r.copy(p.Array)
		if err != nil {
			return err
		}
		*c = copied{q, now}
	} else if now == (contents{}) || now != c.of {
		copy(c.Bytes(), p.Bytes())
		c.of = now
	}
	r.bufs[b], r.from[b] = c.Array, c.from
	return nil
}

func (r *rank) copy(a array.Array) (piece, error) {
	q, err := r.spare.array(a.Type)
	if err == nil {
		copy(q.Bytes(), a.Bytes())
	}
	return q, err
}

// drop releases a copy's memory for other arrays.
func (r *rank) drop(c *copied) {
	if c.from != nil {
		r.spare.keep(c.piece)
		*c = copied{}
	}
}
