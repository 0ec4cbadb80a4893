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

// Lend returns weights of the files c as inputs of a session, by the inputs' names: those that lie in the files in one piece
// are lent, and others are copied, by as many goroutines as there may be. After an error it returns what there is; the error is
// that of the first name of those that failed. Session.Recycle gives back what the files have lent. The bytes of weights that were
// copied are dropped from memory, where they would stay beside the copies.
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

// Drop says that the parameter's bytes in the files c will not be used soon, such as those of which there is a copy: they take no
// memory of the process until they are.
func (w *Weight) Drop(c *checkpoint.Checkpoint) {
	for _, t := range w.tensors {
		c.Drop(t)
	}
}
