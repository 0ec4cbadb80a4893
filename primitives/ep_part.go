package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/lowering"
)

// experts are those local experts of every rank, from `from` to `to`, whose rows
// an instruction moves; the zero value is all of them.
type experts struct{ from, to int }

// of returns them among n.
func (x experts) of(n int) experts {
	if x.to == 0 {
		return experts{0, n}
	}
	return x
}

// kernelOf is how a kernel is cut.
func kernelOf(kernel func(experts) lowering.Kernel) func(from, to int) (lowering.Kernel, lowering.Exchange) {
	return func(from, to int) (lowering.Kernel, lowering.Exchange) { return kernel(experts{from, to}), nil }
}

// exchangeOf is how an exchange is cut.
func exchangeOf(exchange func(experts) lowering.Exchange) func(from, to int) (lowering.Kernel, lowering.Exchange) {
	return func(from, to int) (lowering.Kernel, lowering.Exchange) {
		return nil, exchange(experts{from, to})
	}
}

// rows returns the first row and the end of the experts' zones, where counts
// are the rows in use of all experts of the rank.
func (x experts) rows(counts array.Array, align int) (first, end int) {
	n := data[int32](counts)
	x = x.of(len(n))
	for e, rows := range n[:x.to] {
		if e == x.from {
			first = end
		}
		end = roundUp(end+int(rows), align)
	}
	return first, end
}

// shipment is what a rank exchanges with each member of its group: of whole, in
// rows, those from `skip` on, so many.
type shipment struct{ whole, skip, rows []int32 }

func newShipment(a *lowering.Args, g ep.Group) shipment {
	n := len(g.Sources)
	return shipment{lowering.Make[int32](a, n), lowering.Make[int32](a, n), lowering.Make[int32](a, n)}
}

// sent is what member sends of its tokens to the experts, argument 1 being the
// table after drops.
func (x experts) sent(a *lowering.Args, g ep.Group, member int) shipment {
	s, kept, local := newShipment(a, g), data[int32](a.In[1]), g.Experts/len(g.Sources)
	x = x.of(local)
	for m := range g.Sources {
		s.whole[m] = g.Pairs(kept, member, m, 0, local)
		s.skip[m], s.rows[m] = g.Pairs(kept, member, m, 0, x.from), g.Pairs(kept, member, m, x.from, x.to)
	}
	return s
}

// received is what the experts of member receive.
func (x experts) received(a *lowering.Args, g ep.Group, member int) shipment {
	s, kept, local := newShipment(a, g), data[int32](a.In[1]), g.Experts/len(g.Sources)
	x = x.of(local)
	for m := range g.Sources {
		s.whole[m] = g.Pairs(kept, m, member, 0, local)
		s.skip[m], s.rows[m] = g.Pairs(kept, m, member, 0, x.from), g.Pairs(kept, m, member, x.from, x.to)
	}
	return s
}

// cut returns the parts of buf that go to, or come from, each member.
func (s shipment) cut(a *lowering.Args, buf array.Array, rowBytes int) [][]byte {
	out := lowering.KeepDirty[parcels](a)
	out.parts = out.parts[:0]
	mem := buf.Bytes()
	for m, n := range s.whole {
		lo := int(s.skip[m]) * rowBytes
		hi := lo + int(s.rows[m])*rowBytes
		out.parts, mem = append(out.parts, mem[lo:hi:hi]), mem[int(n)*rowBytes:]
	}
	return out.parts
}

type parcels struct{ parts [][]byte }
