package main

import (
	"bytes"
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/testing/toy"
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
	p, cfg := planned(t, c, o, o.Mesh)
	plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
	require.NoError(t, err)
	ranks := o.Mesh.Ranks()
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
	t.Logf("%s allocated, %s planned for %d ranks", memory.Format(got), memory.Format(want), ranks)
	if got < want*9/10 || got > want*11/10 {
		t.Errorf("%d bytes allocated by a session and its first step, want %d within 10%%", got, want)
	}
}

// A model that is too large is refused at once, by the flag that makes it so.
func TestRoom(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"-width 1000000", "-width 1000000: the model needs at least "},
		{"-width 1000000000", "-width 1000000000: the model needs at least "},
		{"-ffn 1000000000", "-ffn 1000000000: the model needs at least "},
		{"-experts 1000000000", "-experts 1000000000: the model needs at least "},
		{"-layers 1000000000", "-layers 1000000000: the model needs at least "},
		{"-width 2 -heads 1 -ffn 2 -experts 4 -layers 100000000", "-layers 100000000: the model needs at least "},
		{"-batch 1000000000", "-batch 1000000000: the model needs at least "},
		{"-seq 1000000000", "-seq 1000000000: the model needs at least "},
		{"-check -experts 1000000000 -mesh=", "-experts 1000000000: the model needs at least "},
		{"-width 1000000000 -layers 1000000000 -ffn 1000000000 -experts 1000000000 -batch 1000000000 -seq 1000000000", ": the model needs at least "},
	} {
		args, _ := tiny(t, strings.Fields(c.flags)...)
		began := allocated()
		_, err := execute(t, args...)
		require.ErrorContains(t, err, c.want, c.flags)
		require.ErrorContains(t, err, " can be had (", c.flags)
		if n := allocated() - began; n > 16<<20 {
			t.Errorf("%s: %d bytes allocated before it was refused", c.flags, n)
		}
	}
}

// allocated returns the bytes allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Passes over the plan leave fewer instructions and a smaller arena.
func TestPlanPasses(t *testing.T) {
	c, o, err := parse(nil)
	require.NoError(t, err)
	p, cfg := planned(t, c, o, o.Mesh)
	with, err := gomoe.Compile(t.Context(), p.Program, cfg)
	require.NoError(t, err)
	cfg.Optimize = gomoe.Off
	without, err := gomoe.Compile(t.Context(), p.Program, cfg)
	require.NoError(t, err)
	t.Logf("%d instructions become %d, %d bytes of arena %d", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	if len(with.Instrs) >= len(without.Instrs)*9/10 || with.Arena >= without.Arena {
		t.Errorf("%d instructions become %d, %d bytes of arena %d; want fewer and less", len(without.Instrs), len(with.Instrs), without.Arena, with.Arena)
	}
}

// With -remat a step takes less memory for what the backward pass needs, the less the more
// is computed again, and gives the same bits.
func TestRemat(t *testing.T) {
	arena := map[string]int64{}
	var want []byte
	for _, remat := range []string{"off", "products", "all"} {
		c, o, err := parse([]string{"-remat", remat})
		require.NoError(t, err)
		p, cfg := planned(t, c, o, o.Mesh)
		plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		arena[remat] = plan.Arena

		args, _ := tiny(t, "-remat", remat)
		small, o, corpus := setup(t, args...)
		tr := started(t, small, o, o.Mesh, o.Seed, gruntime.Options{}, false)
		defer tr.Close()
		for n := 1; n <= 2; n++ {
			inputs, targets, err := corpus.Batch(n, o.Rows, o.Length)
			require.NoError(t, err)
			_, err = tr.train(context.Background(), n, 1e-2, inputs, targets)
			require.NoError(t, err)
		}
		var got []byte
		for _, name := range slices.Sorted(maps.Keys(tr.State())) {
			got = append(got, toy.Part(t, tr.State()[name], 0).Bytes()...)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("-remat %s: weights and moments of rank 0 differ from those without after two steps", remat)
		}
	}
	t.Log(arena)
	if arena["all"]*2 > arena["off"] || arena["products"] >= arena["off"] || arena["all"] >= arena["products"] {
		t.Errorf("arenas of %v, want the least for all, which is at most half of that for off", arena)
	}
	_, _, err := parse([]string{"-remat", "some"})
	require.ErrorContains(t, err, `invalid value "some" for flag -remat: want off, products or all`)
}

// The step adds up all gradients in few exchanges, with overlap and without, also where each
// rank takes its part of them (-zero), and that costs less than a tenth of its temporaries. Of the
// sums, 4 are the loads of the layers' experts.
func TestSumsAreJoined(t *testing.T) {
	for _, s := range []struct {
		zero        string
		made, asked map[string]int
		arena       int64 // bytes without joined exchanges
	}{
		{"off", map[string]int{"all_sum": 6, "all_gather": 2}, map[string]int{"all_sum": 4 + 43, "all_gather": 18}, 45_300_000},
		{"moments", map[string]int{"reduce_scatter": 6, "all_sum": 1, "all_gather": 7}, map[string]int{"reduce_scatter": 43, "all_sum": 4, "all_gather": 6 + 2*43}, 43_192_512},
		{"weights", map[string]int{"reduce_scatter": 6, "all_sum": 1, "all_gather": 26}, map[string]int{"reduce_scatter": 43, "all_sum": 4, "all_gather": 6 + 2*43}, 50_454_336},
	} {
		for _, overlap := range []lowering.Overlap{lowering.OverlapOff, lowering.OverlapCollectives} {
			c, o, err := parse([]string{"-zero", s.zero})
			require.NoError(t, err)
			o.Overlap = overlap
			p, cfg := planned(t, c, o, o.Mesh)
			cfg.Check = true
			plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
			require.NoError(t, err)
			made, asked := exchanges(plan)
			for _, op := range []string{"all_sum", "reduce_scatter", "all_gather"} {
				if s.asked[op] > 0 && (made[op] > s.made[op] || asked[op] != s.asked[op]) {
					t.Errorf("-zero %s, overlap %s: %d %ss for %d, want at most %d for %d", s.zero, overlap, made[op], op, asked[op], s.made[op], s.asked[op])
				}
			}
			if most := s.arena * 11 / 10; plan.Arena > most {
				t.Errorf("-zero %s, overlap %s: an arena of %d bytes, want at most %d", s.zero, overlap, plan.Arena, most)
			}
			t.Logf("-zero %s, overlap %s: %v for %v, arena of %d bytes", s.zero, overlap, made, asked, plan.Arena)
		}
	}
}

// exchanges counts the exchanges of a plan by name, and those that the program asks for, of
// which some have become one. Numbers without dimensions do not count.
func exchanges(p *lowering.Plan) (made, asked map[string]int) {
	made, asked = map[string]int{}, map[string]int{}
	packed := map[int]int{} // of a buffer: the arrays of which it has parts
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch {
		case in.Name() == "join_parts":
			packed[in.Out[0]] = len(in.In)
		case in.Communicates():
			n := 0
			for _, b := range in.In {
				if p.Bufs[b].Type.Bytes() > 4 {
					n += max(1, packed[b])
				}
			}
			if n > 0 {
				made[in.Name()], asked[in.Name()] = made[in.Name()]+1, asked[in.Name()]+n
			}
		}
	}
	return made, asked
}
