package engine

import (
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
)

// child implements runner.
func (m *member) child(ranks []int, color int) (jaccl.Group, error) {
	key := splitKey(m.r.key, m.splits, color)
	m.splits++
	if ranks == nil {
		return nil, nil
	}
	j := m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.group(key, ranks, m.rank()), nil
}

// Close implements Group. Peers that wait for this member in the group, now or later,
// get an error.
func (m *member) Close() error {
	r, j := m.r, m.r.job
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.closed[m.index] {
		return nil
	}
	if base := fmt.Sprint(r.ranks); r.key == groupKey(r.ranks, j.closes[m.rank()]) {
		j.closes[m.rank()][base]++
	}
	r.leave(m.index)
	for pair, p := range r.pairs {
		for i, k := range pair {
			if k == m.index {
				p.leave(i)
			}
		}
	}
	for _, closed := range r.closed {
		if !closed {
			return nil
		}
	}
	delete(j.groups, r.key)
	for _, p := range r.pairs {
		delete(j.groups, p.key)
	}
	return nil
}

// leave notes that member i has closed the group. The caller holds job.mu.
func (r *rendezvous) leave(i int) {
	r.closed[i] = true
	if r.arrived > 0 {
		r.job.fail(goneFrom(r.ranks[i], r.whole))
	}
}
