package runtime

import (
	goruntime "runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"weak"
)

// A session takes back the memory of a large result that nobody refers to any more, and
// uses it for the results of a later step. Fresh memory is dearer: the system zeroes it
// page by page when it is first written, which took up to a third of a step whose results
// are as large as its arguments.

const (
	// claimFrom is the size in bytes from which on a rank's part of a result is taken back.
	// Smaller ones cost little and are left to Go's collector.
	claimFrom = 64 << 10
	// collectFrom is the size in bytes from which on a step collects garbage to find what
	// nobody refers to. A collection of a heap without many pointers takes some 0.3 ms, and
	// fresh memory some 0.25 to 0.7 ms per MiB.
	collectFrom = 2 << 20
	// gatherTo is how many bytes of results are left to gather before a collection where a
	// step's results are smaller: it then finds the memory of several steps at once.
	gatherTo = 16 << 20
	// scannedFor says for how many bytes of results one byte of pointers may be looked at:
	// a collection goes through all memory with pointers in it, at about a quarter of the
	// speed at which fresh memory is made.
	scannedFor = 4
	// mostSkips is the largest number of steps for which no garbage is collected after
	// collections that found nothing.
	mostSkips = 256
)

// tie is what the Arrays of one result refer to, copies of them included. No session
// refers to it.
type tie struct{ claim *claim }

// claim is a session's claim to the memory of a result, for when nobody refers to its tie
// any more. It is void once the memory belongs to somebody else: it was recycled or
// donated, or the caller has been given it.
type claim struct {
	of    weak.Pointer[tie]
	mu    sync.Mutex
	parts []piece // nil if the claim is void
}

// disclaim makes the session that made the array leave its memory alone.
func (d *Array) disclaim() {
	if d.tie == nil {
		return
	}
	c := d.tie.claim
	c.mu.Lock()
	c.parts = nil
	c.mu.Unlock()
	goruntime.KeepAlive(d)
}

// claim makes the session claim the memory of the result a if it is large.
func (s *Session) claim(a *Array) {
	for _, p := range a.parts {
		if p.Type.Bytes() >= claimFrom {
			a.tie = &tie{claim: &claim{parts: a.parts}}
			a.tie.claim.of = weak.Make(a.tie)
			s.claims.add(a.tie.claim)
			return
		}
	}
}

// claims are the claims of a session.
type claims struct {
	list []*claim
	// After collections that found nothing, `skip` more steps do without one, and `next` is
	// how many it will be after another such collection.
	skip, next int
	sample     [1]metrics.Sample
}

// add adds a claim. Where the list would have to grow, it drops void ones first.
func (c *claims) add(k *claim) {
	if len(c.list) == cap(c.list) {
		c.list = slices.DeleteFunc(c.list, func(k *claim) bool { return k.memory() == nil })
	}
	c.list = append(c.list, k)
}

// memory returns the claimed memory. It is nil if the claim is void.
func (k *claim) memory() []piece {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parts
}

// reclaim takes back as much memory as the results of the next steps want beyond what the
// ranks have to spare, and leaves to Go's collector what else nobody refers to. It collects
// garbage if that is likely to pay.
func (s *Session) reclaim() {
	c := &s.claims
	if len(c.list) == 0 {
		return
	}
	step := s.wants()
	if !s.lacks(1) {
		return
	}
	steps := int(max(gatherTo/step, 1))
	s.lacks(steps)
	hope, enough := s.sweep(), int64(collectFrom)
	if steps > 1 {
		enough = max(enough, step*int64(steps)/2)
	}
	if hope < enough {
		return
	}
	if c.skip > 0 {
		c.skip--
		return
	}
	if c.scanned() > hope/scannedFor {
		return
	}
	goruntime.GC()
	if s.sweep() < hope {
		c.next = 0
		return
	}
	c.next = min(max(2*c.next, 1), mostSkips)
	c.skip = c.next
}

// wants counts the large parts of results that a step makes, and returns their bytes.
func (s *Session) wants() (bytes int64) {
	for _, r := range s.ranks {
		if r.wanted == nil {
			r.wanted, r.lacking, r.used = map[int64]int{}, map[int64]int{}, map[int64]int{}
			for _, p := range r.plan.Out {
				if root := r.plan.Root(p.Buf); r.made(root) && r.plan.Bufs[root].Type.Bytes() >= claimFrom {
					r.wanted[r.plan.Bufs[root].Type.Bytes()]++
				}
			}
		}
		for size, n := range r.wanted {
			bytes += size * int64(n)
		}
	}
	return bytes
}

// lacks finds out what the results of that many steps want beyond what the ranks have to
// spare, and reports whether that is anything.
func (s *Session) lacks(steps int) (some bool) {
	for _, r := range s.ranks {
		for size, n := range r.wanted {
			r.lacking[size] = max(n*steps-r.spare.count(size), 0)
			some = some || r.lacking[size] > 0
		}
	}
	return some
}

// sweep gives the memory that nobody refers to any more to ranks that lack it. It returns
// how many bytes of what they still lack lie in results that, as far as is known, are used.
func (s *Session) sweep() (hope int64) {
	for _, r := range s.ranks {
		clear(r.used)
	}
	c := &s.claims
	left := c.list[:0]
	for _, k := range c.list {
		used := k.of.Value() != nil
		parts := k.memory()
		if parts == nil {
			continue
		}
		if used {
			left = append(left, k)
		}
		for i, r := range s.ranks {
			size := parts[i].Type.Bytes()
			switch {
			case used:
				r.used[size]++
			case r.lacking[size] > 0:
				r.lacking[size]--
				r.spare.keep(parts[i])
			}
		}
	}
	for _, r := range s.ranks {
		for size, n := range r.lacking {
			hope += size * int64(min(n, r.used[size]))
		}
	}
	clear(c.list[len(left):])
	c.list = left
	return hope
}

// scanned returns how many bytes with pointers a collection goes through.
func (c *claims) scanned() int64 {
	c.sample[0].Name = "/gc/scan/heap:bytes"
	metrics.Read(c.sample[:])
	if c.sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(c.sample[0].Value.Uint64())
}
