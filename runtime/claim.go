package runtime

import (
	goruntime "runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"weak"
)

// A session reclaims the memory of large results that have become unreachable, and uses
// it for the results of a later step. Fresh memory costs more: the system zeroes it page
// by page on the first write, which took up to a third of a step with results as large as
// its arguments.

const (
	// claimFrom is the smallest size in bytes at which a rank's part of a result is
	// reclaimed. Smaller ones cost little and are left to Go's collector.
	claimFrom = 64 << 10
	// collectFrom is the smallest size in bytes of results for which a step collects
	// garbage to find unreachable ones. A collection of a heap with few pointers takes
	// some 0.3 ms, and fresh memory some 0.25 to 0.7 ms per MiB.
	collectFrom = 2 << 20
	// gatherTo is the number of bytes of results that accumulate before a collection if a
	// step's results are smaller, so that one collection serves several steps.
	gatherTo = 16 << 20
	// scannedFor is the number of bytes of results that justify scanning one byte of
	// memory with pointers: a collection scans all such memory, at about a quarter of the
	// speed of making fresh memory.
	scannedFor = 4
	// mostSkips is the largest number of steps to skip after collections that found
	// nothing.
	mostSkips = 256
)

// tie is referenced by all Arrays of one result, copies of them included. No session
// refers to it.
type tie struct{ claim *claim }

// claim is a session's claim to the memory of a result, due when its tie becomes
// unreachable. It is void once the memory has another owner: it was recycled, donated, or
// given to the caller.
type claim struct {
	of    weak.Pointer[tie]
	mu    sync.Mutex
	parts []piece // nil if the claim is void
}

// disclaim voids the claim of the session that made the array.
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

// claim records the session's claim to the memory of the result a, if large.
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
	// After collections that found nothing, `skip` more steps do without one. `next` is the
	// value of `skip` after another such collection.
	skip, next int
	sample     [1]metrics.Sample
}

// add adds a claim. If the list would have to grow, it first drops void ones.
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

// reclaim takes back as much unreachable memory as the results of the next steps need
// beyond the ranks' spare memory. It leaves the rest to Go's collector. It collects
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

// wants counts the large parts of results in a step, and returns their bytes.
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

// lacks computes the memory that the results of the given number of steps need beyond the
// ranks' spare memory, and reports whether there is any.
func (s *Session) lacks(steps int) (some bool) {
	for _, r := range s.ranks {
		for size, n := range r.wanted {
			r.lacking[size] = max(n*steps-r.spare.count(size), 0)
			some = some || r.lacking[size] > 0
		}
	}
	return some
}

// sweep gives unreachable memory to ranks lacking it. It returns how many of the bytes
// that are still lacking lie in results that seem to be in use.
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

// scanned returns the number of bytes with pointers that a collection scans.
func (c *claims) scanned() int64 {
	c.sample[0].Name = "/gc/scan/heap:bytes"
	metrics.Read(c.sample[:])
	if c.sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(c.sample[0].Value.Uint64())
}
