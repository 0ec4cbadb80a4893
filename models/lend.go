package models

import (
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/runtime"
)

// Lend returns weights of the files c as inputs of a session, by input name. Contiguous weights are lent in place,
// and others are copied, using up to GOMAXPROCS goroutines. After an error it returns the weights done so far; the
// error is the one for the first failing name in order. Session.Recycle returns the lent memory. Copied weights are
// dropped from memory, to avoid keeping them twice.
func Lend(s *runtime.Session, c *checkpoint.Checkpoint, weights map[string]*Weight) (map[string]*runtime.Array, error) {
	names := slices.Sorted(maps.Keys(weights))
	arrays, errs := make([]*runtime.Array, len(names)), make([]error, len(names))
	var taken atomic.Int64
	var wait sync.WaitGroup
	for range min(goruntime.GOMAXPROCS(0), len(names)) {
		wait.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(names); i = int(taken.Add(1)) - 1 {
				w := weights[names[i]]
				if arrays[i], errs[i] = s.Lend(names[i], w.Loan(c)); errs[i] == nil && arrays[i].Lent() == 0 {
					w.Drop(c)
				}
			}
		})
	}
	wait.Wait()
	in := map[string]*runtime.Array{}
	for i, name := range names {
		if arrays[i] != nil {
			in[name] = arrays[i]
		}
	}
	for _, err := range errs {
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

// Drop releases the memory of the parameter's bytes in the files c, for example after copying them. They are read
// from disk again when they are used.
func (w *Weight) Drop(c *checkpoint.Checkpoint) {
	for _, t := range w.tensors {
		c.Drop(t)
	}
}
