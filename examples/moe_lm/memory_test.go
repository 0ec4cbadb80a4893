package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	gruntime "github.com/gomoe/gomoe/runtime"
)

// The default training step allocates what its plan's report says, within 10%,
// for its ranks together. Nothing is collected meanwhile, so that what is
// allocated is the heap's peak.
func TestStepMemory(t *testing.T) {
	c, o, err := parse(nil)
	require.NoError(t, err)
	p, err := c.step(false)
	require.NoError(t, err)
	plan, err := gomoe.Compile(p, c.placed(o.mesh, p, true))
	require.NoError(t, err)
	ranks := o.mesh.Ranks()
	comms, err := engine.Local(ranks, jaccl.Options{})
	require.NoError(t, err)
	host := map[string]array.Array{"rate": array.Scalar[float32](1e-3), "step": array.Scalar[int32](1)}
	for _, v := range p.In {
		if _, ok := host[v.Name]; !ok {
			host[v.Name] = array.New(v.Type)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // and again, so that there are no workspaces of other tests
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := gruntime.Open(plan, comms, gruntime.Options{})
	require.NoError(t, err)
	defer s.Close()
	in := map[string]*gruntime.Array{}
	for name, a := range host {
		in[name], err = s.Put(name, a)
		require.NoError(t, err)
	}
	_, err = s.Run(context.Background(), in)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	got, want := int64(after.TotalAlloc-before.TotalAlloc), plan.Report(runtime.GOMAXPROCS(0)).Mem.OfRanks(ranks)
	t.Logf("%s allocated, %s planned for %d ranks", lowering.Bytes(got), lowering.Bytes(want), ranks)
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("%d bytes allocated by a session and its first step, want %d within 10%%", got, want)
	}
}

// Passes over the plan leave fewer instructions and a smaller arena.
func TestPlanPasses(t *testing.T) {
	c, o, err := parse(nil)
	require.NoError(t, err)
	p, err := c.step(false)
	require.NoError(t, err)
	cfg := c.placed(o.mesh, p, true)
	with, err := gomoe.Compile(p, cfg)
	require.NoError(t, err)
	cfg.Optimize = gomoe.Off
	without, err := gomoe.Compile(p, cfg)
	require.NoError(t, err)
	t.Logf("%d instructions become %d, %d bytes of arena %d", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	if len(with.Instrs) >= len(without.Instrs)*9/10 || with.Arena >= without.Arena {
		t.Errorf("%d instructions become %d, %d bytes of arena %d; want fewer and less", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	}
}
