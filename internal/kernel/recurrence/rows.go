package recurrence

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// together is the number of rows between two visits of the same columns of the state.
const together = 64

// few is the maximum number of rows for which columns of the state are read and written where they are. At a distance
// of a power of two they compete for the same lines of a cache.
const few = 4

// widest is the maximum number of columns that a step in assembly takes.
const widest = 32

// Scratch returns the number of elements of scratch memory for Forward.
func (h Head) Scratch() int {
	return together*(h.Decays()+3*h.K+2*h.padded()) + 2*h.K + h.K*widest + 2*widest + 1
}

// padded returns the number of columns of whole steps.
func (h Head) padded() int { return (h.V + widest - 1) / widest * widest }

// Forward computes n rows of a head. state[K,V] is the state before the first row, and becomes the state after the
// last one. Each element of a result is one chain of multiply-adds over K, whatever the number of rows, so that the
// results are those of one row at a time.
func Forward[T kernel.Float](h Head, n int, in In[T], state []T, out kernel.Rows[T], room []T) {
	r := rows[T]{Head: h, in: in, state: state, out: out}
	take := func(n int) []T {
		s := room[:n:n]
		room = room[n:]
		return s
	}
	r.factors, r.reads, r.zeros = take(together*h.Decays()), take((together+1)*h.K), take(h.K)
	r.keys, r.queries = take(together*h.K), take(together*h.K)
	r.values, r.results = take(together*h.padded()), take(together*h.padded())
	r.columns, r.read, r.nothing, r.one = take(h.K*widest), take(widest), take(widest), take(1)
	clear(r.zeros)
	set(r.nothing, T(math.Copysign(0, -1)))
	r.one[0] = 1
	if h.K == 0 {
		for i := range n {
			clear(out.Row(i, h.V))
		}
		return
	}
	for at := 0; at < n; at += together {
		r.in, r.out, r.n = in.from(at), out.From(at), min(together, n-at)
		r.open()
		for column, width := 0, 0; column < h.V; column += width {
			width = columns[T](h.V - column)
			r.strip(column, width)
		}
		for i := range r.n {
			copy(r.out.Row(i, h.V), r.results[i*h.padded():])
		}
	}
}

// rows is the work on up to `together` rows.
type rows[T kernel.Float] struct {
	Head
	n     int
	in    In[T]
	state []T
	out   kernel.Rows[T]

	factors []T // exp(decay) [n,decays]
	reads   []T // keys times their factors [n+1,K]: the state before a row times this is the decayed state times the key
	// Copies of the arguments' rows. Where heads lie beside each other, the rows of one compete for lines of the caches.
	keys, queries []T // [n,K]
	values        []T // [n,padded], with zeros beyond V
	results       []T // [n,padded]
	columns       []T // of the state, apart from others [K,widest]
	read          []T // decayed state times key, of the next row [widest]
	zeros         []T // [K]
	nothing       []T // -0, which added to any number leaves it as it is [widest]
	one           []T // 1
}

// open computes the factors of the rows.
func (r *rows[T]) open() {
	d := r.Decays()
	for i := range r.n {
		copy(r.factors[i*d:][:d], r.in.Decays.Row(i, d))
	}
	vector.Exp(r.factors[:r.n*d], r.factors[:r.n*d])
	clear(r.reads[r.n*r.K:][:r.K])
	for i := range r.n {
		copy(r.keys[i*r.K:][:r.K], r.in.Keys.Row(i, r.K))
		copy(r.queries[i*r.K:][:r.K], r.in.Queries.Row(i, r.K))
		values := r.values[i*r.padded():][:r.padded()]
		clear(values[copy(values, r.in.Values.Row(i, r.V)):])
		scale(r.Channels, r.reads[i*r.K:][:r.K], r.keys[i*r.K:][:r.K], r.factors[i*d:][:d])
	}
}

// strip computes the rows for `width` columns of the state from `column` on, of which V may have fewer.
func (r *rows[T]) strip(column, width int) {
	s := step[T]{n: r.K, state: r.state[column:], stride: r.V, read: r.read[:width]}
	here := min(width, r.V-column)
	apart := here < width || r.n > few && width < r.V
	if apart {
		s.state, s.stride = r.columns, width
		for i := range r.K {
			row := r.columns[i*width:][:width]
			clear(row[copy(row, r.state[i*r.V+column:][:here]):])
		}
	}
	clear(s.read)
	if r.Delta { // the state times the first key; the state stays as it is
		s.factors, s.key, s.query, s.reads, s.rate = r.one, r.zeros, r.zeros, r.reads[:r.K], 1
		s.value, s.out = r.nothing[:width], r.results[column:][:width]
		s.run()
	}
	for i := range r.n {
		s.factors, s.key, s.query, s.reads, s.rate = r.factors[i*r.Decays():][:r.Decays()], r.keys[i*r.K:][:r.K], r.queries[i*r.K:][:r.K], r.reads[(i+1)*r.K:][:r.K], 1
		s.value, s.out = r.values[i*r.padded()+column:][:width], r.results[i*r.padded()+column:][:width]
		if r.Delta {
			s.rate = r.in.Rates.Row(i, 1)[0]
		} else {
			clear(s.read)
		}
		s.run()
	}
	if apart {
		for i := range r.K {
			copy(r.state[i*r.V+column:][:here], r.columns[i*width:])
		}
	}
}

// scale sets y = x·factors, which are as many as x if they are of channels, and otherwise one.
func scale[T kernel.Float](channels bool, y, x, factors []T) {
	if channels {
		vector.Mul(y, x, factors)
		return
	}
	copy(y, x)
	vector.Scale(kernel.VectorsOf[T](), y, factors[0])
}

func set[T any](x []T, v T) {
	for i := range x {
		x[i] = v
	}
}

// step is a row of some columns of the state:
//
//	u = rate·(value - read),  state = factors·state + key·u,  out = query·state,  read = reads·state
type step[T kernel.Float] struct {
	n, stride         int // rows of the state, and the elements from one to the next
	state             []T
	factors           []T // n, or one for all rows
	key, query, reads []T // n each
	value, read, out  []T // of the columns
	rate              T
}

func (s *step[T]) run() {
	if kernel.VectorsOf[T]() == kernel.Portable {
		s.portable()
	} else {
		s.vectors()
	}
}

// portable is run in plain loops.
func (s *step[T]) portable() {
	u := s.value
	width := len(u)
	rest := s.read
	for j, v := range u {
		rest[j] = s.rate * (v - rest[j])
	}
	clear(s.out)
	var next [portableWidth]T
	for i := range s.n {
		row, f, k, q, x := s.state[i*s.stride:][:width], s.factors[i%len(s.factors)], s.key[i], s.query[i], s.reads[i]
		for j, v := range row {
			v = T(v*f) + T(k*rest[j])
			row[j] = v
			s.out[j] += T(q * v)
			next[j] += T(x * v)
		}
	}
	copy(rest, next[:width])
}

// portableWidth is the number of columns that portable takes at most.
const portableWidth = 16

// vectors is run in assembly, for columns of float32.
func (s *step[T]) vectors() {
	f := func(x []T) *float32 { return &kernel.Float32s(x)[0] }
	a := rowArgs{n: s.n, stride: 4 * s.stride, state: f(s.state), factors: f(s.factors), key: f(s.key[:s.n]), query: f(s.query[:s.n]), reads: f(s.reads[:s.n]),
		value: f(s.value), read: f(s.read), out: f(s.out), rate: float32(s.rate)}
	_ = s.state[(s.n-1)*s.stride+len(s.value)-1] // assembly does not check bounds
	if len(s.factors) > 1 {
		a.factors, a.step = f(s.factors[:s.n]), 4
	}
	runRow(len(s.value), &a)
}

// rowArgs is the argument of the steps in assembly. The generators know the offsets of its fields.
type rowArgs struct {
	n, stride         int // stride in bytes
	state, factors    *float32
	key, query, reads *float32
	value, read, out  *float32
	step              int // bytes from a factor to the next: 4, or 0 if there is one
	rate              float32
}
