package jaccl

// aloneBytes is the volume up to which the last member to arrive does the work
// of all, which saves the others a second wait. Sums of 4 ranks on two cores
// take as long either way at 64 KiB (f32 8 and 9 µs, bf16 29 and 28 µs); with
// more cores the balance is earlier.
const aloneBytes = 32 << 10

// volume returns the bytes that all members read or write together, whichever
// is more.
func (r *rendezvous) volume() int {
	n := 0
	for _, p := range r.posts {
		n += max(len(p.src), len(p.dst))
		for _, s := range p.srcs {
			n += len(s)
		}
	}
	return n
}

// share does member i's share of the operation. The shares of different
// members write to different memory and may run at once; none writes what
// another reads, even if dst is src.
func (r *rendezvous) share(i int, acc *accumulator) {
	p := &r.posts[i]
	switch p.call.Op {
	case allSum:
		// Member i sums a segment and writes it to everyone: nobody else
		// reads that segment of anyone's src.
		lo, hi := segment(len(p.src), i, len(r.posts))
		for ; lo < hi; lo += blockBytes {
			end := min(lo+blockBytes, hi)
			sum := acc.sum(p.call.DType, r.posts, lo, end, r.posts[0].dst[lo:end])
			for k := range r.posts {
				copy(r.posts[k].dst[lo:end], sum) // nothing, where it is there
			}
		}
	case reduceScatter:
		n := len(p.dst)
		for lo := 0; lo < n; lo += blockBytes {
			end := min(lo+blockBytes, n)
			copy(p.dst[lo:end], acc.sum(p.call.DType, r.posts, i*n+lo, i*n+end, p.dst[lo:end]))
		}
	case allGather:
		for k := range r.posts {
			copy(p.dst[k*len(p.src):], r.posts[k].src)
		}
	case allToAll:
		for k := range r.posts {
			copy(p.dsts[k], r.posts[k].srcs[i])
		}
	}
}

// segment returns the bytes of a buffer of n bytes that member i of size sums.
// Segments are whole cache lines, so that members do not write to one line,
// except for the last.
func segment(n, i, size int) (lo, hi int) {
	const line = 64
	step := ((n+size-1)/size + line - 1) / line * line
	return min(i*step, n), min((i+1)*step, n)
}
