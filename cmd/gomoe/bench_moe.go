package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/measure"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// exchangeSizes are the sizes of a layer, for timing its dispatch and combine.
type exchangeSizes struct{ tokens, width, experts, topK int }

func (s exchangeSizes) flags() []string {
	return []string{"-tokens", strconv.Itoa(s.tokens), "-hidden", strconv.Itoa(s.width), "-experts", strconv.Itoa(s.experts), "-top-k", strconv.Itoa(s.topK)}
}

func (s exchangeSizes) check(ranks int) error {
	switch {
	case s.tokens == 0:
		return nil
	case s.tokens < 0 || s.width < 1 || s.topK < 1:
		return usagef("-tokens %d -hidden %d -top-k %d: want numbers above 0", s.tokens, s.width, s.topK)
	case s.experts < s.topK || s.experts%ranks != 0:
		return usagef("-experts %d: want a multiple of %d ranks, and at least -top-k %d", s.experts, ranks, s.topK)
	}
	return nil
}

// program returns a program sending bf16 rows to their experts and back.
func (s exchangeSizes) program(ranks int) (*graph.Program, error) {
	return graph.Trace("exchange", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.BF16, s.tokens*ranks, s.width)
		experts := t.Input("experts", graph.I32, s.tokens*ranks, s.topK)
		r := primitives.Prepare(primitives.PrepareOp{Experts: s.experts}, experts)
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, x)).Named("out")}
	})
}

// exchangeSteps is the number of timed steps, after the same number of warm-up steps.
const exchangeSteps = 10

// measure times the dispatch and combine of a layer with its experts sharded over all ranks and the
// same number of tokens for each expert. w is nil if the ranks are goroutines of this process.
func (s exchangeSizes) measure(ctx context.Context, w *world.World, ranks int, transport string, report func(measure.Row)) error {
	if s.tokens == 0 || ranks < 2 || world.TransportOf(transport).MLX { // MLX has no all_to_all, which carries the rows of split tokens
		return nil
	}
	p, err := s.program(ranks)
	if err != nil {
		return err
	}
	mesh, err := sharding.ParseMesh("ep=" + strconv.Itoa(ranks))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	trace := runtime.NewTrace(&text)
	job, err := gomoe.Open(ctx, p, gomoe.Config{Mesh: mesh, World: w, Place: map[string]sharding.Spec{"x": sharding.Split("ep"), "experts": sharding.Split("ep")}, Options: runtime.Options{Trace: trace}})
	if err != nil {
		return err
	}
	defer job.Close()
	chosen := make([]int32, s.tokens*ranks*s.topK)
	for i := range chosen { // all experts get equally many tokens; the experts of a token differ
		chosen[i] = int32((i/s.topK*7 + i%s.topK*(s.experts/s.topK)) % s.experts)
	}
	e, err := array.Of(chosen, s.tokens*ranks, s.topK)
	if err != nil {
		return err
	}
	in := map[string]*runtime.Array{}
	for name, a := range map[string]array.Array{"x": array.New(graph.T(graph.BF16, s.tokens*ranks, s.width)), "experts": e} {
		if in[name], err = job.Put(name, a); err != nil {
			return err
		}
	}
	for range 2 * exchangeSteps {
		out, err := job.Run(ctx, in)
		if err != nil {
			return err
		}
		job.Recycle(out...)
	}
	if err := trace.Close(); err != nil {
		return err
	}
	times, err := phases(text.Bytes())
	if err != nil {
		return err
	}
	bytes := int64(s.tokens) * int64(s.topK) * int64(s.width) * 2
	for _, op := range []string{"dispatch", "combine"} {
		us := times[op]
		if len(us) < exchangeSteps {
			return fmt.Errorf("%d steps of %s in the trace, want %d", len(us), op, exchangeSteps)
		}
		us = us[len(us)-exchangeSteps:]
		slices.Sort(us)
		median := us[len(us)/2]
		gbs := float64(bytes) / median / 1e3
		report(measure.Row{Transport: transport, Op: op, Ranks: ranks, Bytes: bytes, Calls: len(us), Micros: median, Best: us[0], AlgGBs: gbs, BusGBs: gbs * float64(ranks-1) / float64(ranks)})
	}
	return nil
}

// phases returns, per phase, the durations of the steps of the first rank in a trace. Dispatch is
// everything before the rows of a step are in place, excluding the routing. Combine is the rest.
func phases(trace []byte) (map[string][]float64, error) {
	var t struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Ts, Dur       float64
			Tid           int
		}
	}
	if err := json.Unmarshal(trace, &t); err != nil {
		return nil, err
	}
	times := map[string][]float64{}
	first := -1
	var began, placed float64
	prepared := false
	for _, e := range t.TraceEvents {
		if e.Ph != "X" || first >= 0 && e.Tid != first {
			continue
		}
		first = e.Tid
		switch {
		case e.Cat == "step":
			times["combine"] = append(times["combine"], e.Ts+e.Dur-placed)
			prepared = false
		case e.Name == ops.EPPrepare.String(), e.Name == ops.EPPrepareAlone.String():
			began, prepared = e.Ts+e.Dur, true
		case e.Name == ops.EPPlace.String() && prepared:
			placed = e.Ts + e.Dur
			times["dispatch"] = append(times["dispatch"], placed-began)
		}
	}
	return times, nil
}
