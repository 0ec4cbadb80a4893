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
// that of the first name of those that failed. Session.Recycle gives back what the files have lent.
func Lend(s *runtime.Session, c *checkpoint.Checkpoint, weights map[string]*Weight) (map[string]*runtime.Array, error) {
	names := slices.Sorted(maps.Keys(weights))
	arrays, errs := make([]*runtime.Array, len(names)), make([]error, len(names))
	var taken atomic.Int64
	var wait sync.WaitGroup
	for range min(goruntime.GOMAXPROCS(0), len(names)) {
		wait.Go(func() {
			for i := int(taken.Add(1)) - 1; i < len(names); i = int(taken.Add(1)) - 1 {
				arrays[i], errs[i] = s.Lend(names[i], weights[names[i]].Loan(c))
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
