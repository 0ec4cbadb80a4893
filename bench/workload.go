package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	gomoeruntime "github.com/gomoe/gomoe/runtime"
)

// workload is one task to measure.
type workload struct {
	name  string // of the rows, such as "moe/f32/forward/E=8"
	title string // description for the table
	peer  string // the algorithm's name in peers' programs
	// params are further parameters for peers.
	params map[string]any
	// flop is the number of floating-point operations of one step; 0 means that the rate is not
	// reported.
	flop float64
	// tokens is the number of tokens of a language model computed by a step; 0 means none.
	tokens int
	// tolerance is the largest accepted difference of a peer's result from gomoe's, relative to the
	// largest element of gomoe's. Beyond it, the peer's time does not count.
	tolerance float64
	// target is the largest ratio of gomoe's time to the fastest peer's that the project accepts.
	target  float64
	threads []int
	peers   []string
	// open makes the arrays and gomoe's side of the workload.
	open func(threads int) (*subject, error)
}

// subject is gomoe's side of a workload.
type subject struct {
	in, want map[string]array.Array
	step     func() error
	close    func() error
	absent   error        // the reason why step is nil: this gomoe cannot run the workload
	file     string       // that both sides read, "" for none
	resident func() int64 // bytes of its own held by gomoe's process in the last step; nil if unknown
}

// dump writes the subject's arrays for peers to a new folder.
func (s *subject) dump(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for prefix, arrays := range map[string]map[string]array.Array{"in_": s.in, "want_": s.want} {
		for name, a := range arrays {
			if a.Type.DType == graph.BF16 { // numpy has no bf16
				a = a.As(graph.F32)
			}
			if err := array.WriteFile(filepath.Join(dir, prefix+name+".npy"), a); err != nil {
				return fmt.Errorf("bench: %s: %w", name, err)
			}
		}
	}
	return nil
}

// ofProgram opens p on one rank with the given number of threads and runs it once. want names the
// results for peers to compare, in p's order; results named "" are not compared.
func ofProgram(p *graph.Program, threads int, in map[string]array.Array, want ...string) (*subject, error) {
	runtime.GOMAXPROCS(threads)
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	if err != nil {
		return nil, err
	}
	placed := map[string]*gomoeruntime.Array{}
	for _, v := range p.In {
		a, ok := in[v.Name]
		if !ok {
			return nil, fmt.Errorf("bench: %s: no array for input %s", p.Name, v.Name)
		}
		if placed[v.Name], err = job.Put(v.Name, a); err != nil {
			return nil, err
		}
	}
	s := &subject{in: in, want: map[string]array.Array{}, close: job.Close}
	s.step = func() error {
		_, err := job.Run(context.Background(), placed)
		return err
	}
	out, err := job.Run(context.Background(), placed)
	if err != nil {
		return nil, err
	}
	for i, name := range want {
		if name == "" {
			continue
		}
		if s.want[name], err = out[i].Get(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// normal returns an array of normally distributed numbers depending only on the seed.
func normal(seed uint64, std float64, d graph.DType, shape ...int) array.Array {
	rng := rand.New(rand.NewPCG(seed, 1))
	a := array.New(graph.Type{DType: graph.F32, Shape: shape})
	data := array.Data[float32](a)
	for i := range data {
		data[i] = float32(rng.NormFloat64() * std)
	}
	return a.As(d)
}

// fanIn is the standard deviation of weights preserving the magnitude in sums of n products.
func fanIn(n int) float64 { return 1 / math.Sqrt(float64(n)) }
