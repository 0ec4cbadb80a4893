package kernel

// Rows are the rows of one head: row i begins at element i·Stride of X.
type Rows[T Float] struct {
	X      []T
	Stride int
}

// HeadOf returns the rows of head n of sequence b in x[B,s,heads,d].
func HeadOf[T Float](x []T, b, n, s, heads, d int) Rows[T] {
	if s == 0 {
		return Rows[T]{nil, heads * d}
	}
	return Rows[T]{From(x, (b*s*heads+n)*d), heads * d}
}

// From returns the rows from row i on.
func (r Rows[T]) From(i int) Rows[T] { return Rows[T]{From(r.X, i*r.Stride), r.Stride} }

// Row returns d elements of row i.
func (r Rows[T]) Row(i, d int) []T { return r.X[i*r.Stride:][:d] }

// Float32s returns r, of float32, as that type.
func (r Rows[T]) Float32s() Rows[float32] { return Rows[float32]{Float32s(r.X), r.Stride} }
