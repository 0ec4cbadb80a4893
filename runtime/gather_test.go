package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// processes runs fn once for each process of a job. Here the processes are sessions of
// one process, each with some of the ranks.
func processes(t *testing.T, ranks []int, plans []*lowering.Plan, fn func(i int, s *runtime.Session) error) []error {
	t.Helper()
	total := 0
	for _, n := range ranks {
		total += n
	}
	comms, err := engine.Local(total, jaccl.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	errs := make([]error, len(ranks))
	var wg sync.WaitGroup
	for i, n := range ranks {
		mine := comms[:n]
		comms = comms[n:]
		s, err := runtime.Open(plans[i%len(plans)], mine, runtime.Options{})
		require.NoError(t, err)
		wg.Go(func() {
			defer s.Close()
			defer func() { // what happens when a process ends
				for _, c := range mine {
					c.Close()
				}
			}()
			errs[i] = fn(i, s)
		})
	}
	wg.Wait()
	return errs
}

// Every process gets the whole array, wherever its parts lie.
func TestGet(t *testing.T) {
	for _, shape := range [][]int{{8, 4}, {7, 3}, {1, 0}} {
		testGet(t, shape)
	}
}

func testGet(t *testing.T, shape []int) {
	places := map[string]string{"whole": "", "a": "a", "b": "b", "ab": "a.b", "ba": "b.a", "second": "_,a", "both": "b,a"}
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		for name := range places {
			tr.Input(name, graph.F64, shape...)
		}
		return []*graph.Value{toy.Sum(tr.Input("x", graph.F64, 4))}
	})
	l := plan(t, p, toy.Setup{Mesh: "a=2,b=2", Place: places})
	want := counting(t, shape...).As(graph.F64)
	for _, ranks := range [][]int{{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}} {
		t.Run(fmt.Sprint(shape, ranks), func(t *testing.T) {
			for i, err := range processes(t, ranks, []*lowering.Plan{l}, func(i int, s *runtime.Session) error {
				for _, name := range []string{"whole", "a", "b", "ab", "ba", "second", "both"} {
					d, err := s.Put(name, want)
					if err != nil {
						return err
					}
					got, err := s.Get(t.Context(), d)
					if err != nil {
						return err
					}
					if !array.Equal(got, want) {
						t.Errorf("process %d: %s is\n%v\nwant\n%v", i, name, got, want)
					}
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("process %d: %v", i, err)
				}
			}
		})
	}
}

func TestGetRefuses(t *testing.T) {
	p := trace(t, energy(4))
	l := plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	processes(t, []int{1, 1}, []*lowering.Plan{l}, func(i int, s *runtime.Session) error {
		elsewhere, err := runtime.Put(ramp(4), mesh(t, "b=2"), l.In[0].Spec, []int{0})
		if err == nil {
			_, err = s.Get(t.Context(), elsewhere)
		}
		if err == nil {
			t.Errorf("process %d gets an array of another mesh", i)
		}
		d, err := s.Put("x", ramp(4))
		if err != nil {
			return err
		}
		s.Recycle(d)
		if _, err = s.Get(t.Context(), d); err == nil || !strings.Contains(err.Error(), "its memory was recycled") {
			t.Errorf("process %d gets a spent array: %v", i, err)
		}
		var none *runtime.Array
		for _, get := range []func() (array.Array, error){func() (array.Array, error) { return s.Get(t.Context(), nil) }, none.Get} {
			if _, err = get(); err == nil || !strings.Contains(err.Error(), "no array, want one that a step") {
				t.Errorf("process %d gets no array: %v", i, err)
			}
		}
		return nil
	})
}

// If a process does not call Get, or its context ends, every process gets an error
// and none hangs.
func TestGetFails(t *testing.T) {
	p := trace(t, energy(4))
	l := plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	synctest.Test(t, func(t *testing.T) {
		errs := processes(t, []int{1, 1}, []*lowering.Plan{l}, func(i int, s *runtime.Session) error {
			in, err := toy.Put(s, map[string]array.Array{"x": ramp(4), "w": ramp(4)})
			if err == nil {
				_, err = s.Run(context.Background(), in)
			}
			if err != nil || i == 1 {
				time.Sleep(time.Hour) // neither gets nor ends
				return err
			}
			_, err = s.Get(context.Background(), in["x"])
			return err
		})
		if !errors.Is(errs[0], jaccl.ErrDeadline) || !strings.Contains(errs[0].Error(), "runtime: get f64[4@a]: ") || !strings.Contains(errs[0].Error(), "rank 1") {
			t.Errorf("%v, want a deadline that names rank 1", errs[0])
		}
	})
}

// Meshes with the same number of ranks and different names are different.
func TestMeshesCompared(t *testing.T) {
	p := trace(t, energy(4))
	var plans []*lowering.Plan
	for _, m := range []string{"a=4", "a=2,b=2"} {
		plans = append(plans, plan(t, p, toy.Setup{Mesh: m, Place: map[string]string{"x": "a"}}))
	}
	for i, err := range processes(t, []int{2, 2}, plans, func(i int, s *runtime.Session) error {
		_, err := toy.Eval(context.Background(), s, map[string]array.Array{"x": ramp(4), "w": ramp(4)})
		return err
	}) {
		want := `runtime: rank 2 runs on the mesh "a=2,b=2" and rank 0 on "a=4"; start all ranks with the same mesh`
		if err == nil || err.Error() != want {
			t.Errorf("process %d: %v, want %s", i, err, want)
		}
	}
}
