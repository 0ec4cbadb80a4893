package train

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/snapshot"
)

// recorded is testdata/trajectories.json: arrays by the names of parameters, row by row.
type recorded struct {
	Shapes    map[string][]int
	Rates     []float64
	Start     map[string][]float32
	Gradients []map[string][]float32
	Runs      map[string][]map[string][]float32 // the parameters after every step
}

func trajectories(t *testing.T) recorded {
	t.Helper()
	b, err := os.ReadFile("testdata/trajectories.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(b, &r))
	return r
}

// optimizers are those of the recorded runs.
func optimizers() map[string]Config {
	adam := AdamW(AdamWOptions{Decay: 0.1})
	muon := func(o MuonOptions) Config {
		return Config{Optimizer: Chain(On(Matrices, Muon(o)), On(Not(Matrices), adam))}
	}
	return map[string]Config{
		"adamw":                  {Optimizer: adam},
		"adamw, moments in bf16": {Optimizer: AdamW(AdamWOptions{Decay: 0.1, Moments: graph.BF16})},
		"adamw, clipped":         {Optimizer: Chain(ClipByGlobalNorm(1.5), adam)},
		"average of adamw":       {Optimizer: adam, Average: 0.9},
		"sgd":                    {Optimizer: SGD(SGDOptions{})},
		"sgd, momentum":          {Optimizer: SGD(SGDOptions{Momentum: 0.9, Decay: 0.1})},
		"sgd, nesterov":          {Optimizer: SGD(SGDOptions{Momentum: 0.9, Decay: 0.1, Nesterov: true})},
		"lion":                   {Optimizer: Lion(LionOptions{Decay: 0.1})},
		"adafactor":              {Optimizer: Adafactor(AdafactorOptions{Decay: 0.1})},
		"muon":                   muon(MuonOptions{Decay: 0.1}),
		"muon like adam, plain":  muon(MuonOptions{Decay: 0.1, LikeAdam: true, Plain: true}),
	}
}

// linear traces a step whose gradients are inputs, d/ and the name of the parameter.
func (r recorded) linear(t *testing.T, c Config) *Program {
	t.Helper()
	places := map[string][]string{"e": {"ep", "", "tp"}, "w": {"", "tp"}, "wide": {"tp"}}
	p, err := Trace("step", c, func(s *nn.Scope) (loss *graph.Value, results []*graph.Value) {
		for _, name := range slices.Sorted(maps.Keys(r.Shapes)) {
			w := s.Param(name, "", nn.Init{Mean: 1, Std: 1}, places[name], r.Shapes[name]...)
			x := primitives.ReduceSum(primitives.Mul(w, s.Tracer().Input("d/"+name, graph.F32, r.Shapes[name]...)))
			if loss != nil {
				x = primitives.Add(loss, x)
			}
			loss = x
		}
		return loss, []*graph.Value{loss.Named("loss")}
	})
	require.NoError(t, err)
	return p
}

// follow runs the recorded gradients and returns the state after every step.
func (r recorded) follow(t *testing.T, c Config, cfg gomoe.Config) []map[string]array.Array {
	t.Helper()
	run, err := Open(t.Context(), r.linear(t, c), cfg)
	require.NoError(t, err)
	defer run.Close()
	require.NoError(t, run.Init(t.Context(), 1))
	for name, x := range r.Start {
		for _, to := range []string{name, "average/" + name} {
			if run.state[to] != nil {
				run.state[to], err = run.Job.Put(to, r.of(t, name, x))
				require.NoError(t, err)
			}
		}
	}
	var out []map[string]array.Array
	for i, gs := range r.Gradients {
		in := map[string]array.Array{}
		for name, g := range gs {
			in["d/"+name] = r.of(t, name, g)
		}
		results, err := run.Step(t.Context(), i+1, r.Rates[i], in)
		require.NoError(t, err)
		if results["loss"] == nil || len(results) > 2 {
			t.Fatalf("results %v, want the loss, and the norm where it is clipped", slices.Collect(maps.Keys(results)))
		}
		now := map[string]array.Array{}
		for name, a := range run.State() {
			now[name], err = a.Get()
			require.NoError(t, err)
		}
		out = append(out, now)
	}
	return out
}

func (r recorded) of(t *testing.T, name string, x []float32) array.Array {
	a, err := array.Of(slices.Clone(x), r.Shapes[name]...)
	require.NoError(t, err)
	return a
}

// Every optimiser does what PyTorch or optax does with the same gradients, on one rank and on meshes, with ZeRO and
// without.
func TestTrajectories(t *testing.T) {
	r := trajectories(t)
	require.Equal(t, slices.Sorted(maps.Keys(r.Runs)), slices.Sorted(maps.Keys(optimizers())))
	for name, c := range optimizers() {
		for _, at := range []struct {
			mesh string
			zero Zero
		}{{"", ZeroOff}, {"dp=2,ep=2", ZeroOff}, {"dp=2,ep=2", ZeroMoments}, {"dp=3", ZeroWeights}, {"tp=2", ZeroOff}, {"dp=2,tp=2", ZeroMoments}} {
			m, err := sharding.ParseMesh(at.mesh)
			require.NoError(t, err)
			c.Zero, c.Batch = at.zero, []string{"dp", "ep"}
			for i, got := range r.follow(t, c, gomoe.Config{Mesh: m}) {
				for param, want := range r.Runs[name][i] {
					if c.Average > 0 {
						param = "average/" + param
					}
					if d := apart(array.Data[float32](got[param]), want); !(d <= 3e-6) {
						t.Errorf("%s on %q with zero %q: %s after step %d differs by %.1e, want at most 3e-6:\n%v\nwant\n%v", name, at.mesh, at.zero, param, i+1, d, array.Data[float32](got[param]), want)
						return
					}
				}
			}
		}
	}
}

// What is split over the ranks of the batch changes no bit, with clipping too.
func TestZeroBits(t *testing.T) {
	r := trajectories(t)
	for name, c := range optimizers() {
		c.Batch = []string{"dp", "ep"}
		for _, mesh := range []string{"dp=2", "dp=2,ep=2", "dp=3", "dp=2,tp=2", "ep=2", "dp=5"} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			c.Zero = ZeroOff
			want := r.follow(t, c, gomoe.Config{Mesh: m})
			for _, c.Zero = range []Zero{ZeroMoments, ZeroWeights} {
				for i, got := range r.follow(t, c, gomoe.Config{Mesh: m}) {
					for state, a := range got {
						if !array.Equal(a, want[i][state]) {
							t.Errorf("%s on %s: with zero %q, %s after step %d has other bits: %v, want %v", name, mesh, c.Zero, state, i+1, a, want[i][state])
						}
					}
				}
			}
		}
	}
}

// Weights decay by the patterns of their names: those selected, and no others.
func TestDecayByPattern(t *testing.T) {
	r := trajectories(t)
	const decay = 0.25
	for name, c := range map[string]struct {
		optimizer Transform
		decays    func(param string) bool
	}{
		"w and wide": {Chain(Decay(decay, Named("w*")), ScaleByRate), func(param string) bool { return param[0] == 'w' }},
		"all but e":  {Chain(Decay(decay, Not(Named("e"))), ScaleByRate), func(param string) bool { return param != "e" }},
		"matrices":   {Chain(Decay(decay, nil), ScaleByRate), func(param string) bool { return len(r.Shapes[param]) > 1 }},
		"none":       {Chain(Decay(decay, Not(All)), ScaleByRate), func(string) bool { return false }},
		"patterns":   {Chain(Decay(decay, Named("[^w]*", "wide")), ScaleByRate), func(param string) bool { return param != "w" }},
	} {
		got := r.follow(t, Config{Optimizer: c.optimizer}, gomoe.Config{})[0]
		for param, start := range r.Start {
			for i, p := range array.Data[float32](got[param]) {
				g := float64(r.Gradients[0][param][i])
				if c.decays(param) {
					g += decay * float64(start[i])
				}
				if want := float64(start[i]) - r.Rates[0]*g; math.Abs(float64(p)-want) > 1e-6 {
					t.Fatalf("%s: %s[%d] is %v, want %v", name, param, i, p, want)
				}
			}
		}
	}
}

// apart returns the largest difference, relative to the largest element.
func apart(got, want []float32) float64 {
	most, d := 0.0, 0.0
	for i, x := range want {
		most = max(most, math.Abs(float64(x)))
		if e := math.Abs(float64(got[i]) - float64(x)); !(e <= d) { // a NaN, too
			d = e
		}
	}
	return d / most
}

// Moments in bf16 take half of the memory, and what is split takes a part of it.
func TestState(t *testing.T) {
	r := trajectories(t)
	p := r.linear(t, Config{Optimizer: AdamW(AdamWOptions{Moments: graph.BF16}), Zero: ZeroMoments, Batch: []string{"dp", "ep"}, Average: 0.5})
	m, err := sharding.ParseMesh("dp=2,tp=2")
	require.NoError(t, err)
	var got []string
	for _, st := range p.State {
		if strings.HasSuffix(st.Name, "e") && !strings.HasSuffix(st.Name, "wide") {
			got = append(got, st.Name+" "+st.Spec(m).Format(st.Type))
		}
	}
	require.Equal(t, []string{"e f32[2,4,3@tp]", "m/e bf16[2@dp,4,3@tp]", "v/e bf16[2@dp,4,3@tp]", "average/e f32[2@dp,4,3@tp]"}, got)
}

// A run that is saved and goes on, on another mesh, has the state of one that does not pause.
func TestRunResumes(t *testing.T) {
	r := trajectories(t)
	c := Config{Optimizer: Chain(ClipByGlobalNorm(1), AdamW(AdamWOptions{})), Zero: ZeroMoments, Batch: []string{"dp", "ep"}}
	folder := snapshot.Folder{Path: filepath.Join(t.TempDir(), "checkpoints")}
	in := map[string]array.Array{}
	for name, g := range r.Gradients[0] {
		in["d/"+name] = r.of(t, name, g)
	}
	open := func(mesh string) *Run {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		run, err := Open(t.Context(), r.linear(t, c), gomoe.Config{Mesh: m})
		require.NoError(t, err)
		t.Cleanup(func() { run.Close() })
		return run
	}
	first, second := open("dp=2"), open("ep=2")
	_, err := second.Step(t.Context(), 1, 0.1, in)
	require.ErrorContains(t, err, "train: step: there is no state; call Init or Restore before the first step")
	require.NoError(t, first.Init(t.Context(), 3))
	_, err = first.Step(t.Context(), 1, 0.1, in)
	require.NoError(t, err)
	require.NoError(t, folder.Save(t.Context(), snapshot.State{Step: 1, Arrays: first.State()}))
	saved, err := folder.Latest(t.Context())
	require.NoError(t, err)
	defer saved.Close()
	require.NoError(t, second.Restore(saved))
	for _, run := range []*Run{first, second} {
		_, err = run.Step(t.Context(), 2, 0.1, in)
		require.NoError(t, err)
	}
	for name, a := range first.State() {
		want, err := a.Get()
		require.NoError(t, err)
		got, err := second.State()[name].Get()
		require.NoError(t, err)
		if d := apart(array.Data[float32](got), array.Data[float32](want)); d > 1e-6 {
			t.Errorf("%s differs by %.1e", name, d)
		}
	}
}

// What one optimiser has kept is not taken for another's.
func TestRunResumesItsOptimizer(t *testing.T) {
	r := trajectories(t)
	open := func(o Transform) *Run {
		run, err := Open(t.Context(), r.linear(t, Config{Optimizer: o}), gomoe.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { run.Close() })
		return run
	}
	optimisers := map[string]Transform{
		"AdamW": AdamW(AdamWOptions{}), "Lion": Lion(LionOptions{}), "SGD": SGD(SGDOptions{}), "momentum": SGD(SGDOptions{Momentum: 0.9}),
		"Muon": On(Matrices, Muon(MuonOptions{})), "Adafactor": Adafactor(AdafactorOptions{}),
	}
	optimisers["Muon"] = Chain(optimisers["Muon"], On(Not(Matrices), SGD(SGDOptions{Momentum: 0.9})))
	for from, o := range optimisers {
		first, folder := open(o), snapshot.Folder{Path: t.TempDir()}
		require.NoError(t, first.Init(t.Context(), 3))
		require.NoError(t, folder.Save(t.Context(), snapshot.State{Step: 1, Arrays: first.State()}))
		saved, err := folder.Latest(t.Context())
		require.NoError(t, err)
		defer saved.Close()
		for to, o := range optimisers {
			err := open(o).Restore(saved)
			switch {
			case to == from:
				require.NoError(t, err, to)
			case from == "SGD": // which keeps nothing
				require.ErrorContains(t, err, "snapshot: ", to)
			default:
				require.ErrorContains(t, err, ", which this run does not keep; it is of another optimiser or model", "%s from %s", to, from)
			}
		}
	}
}

// The first state is the same on every mesh.
func TestInit(t *testing.T) {
	r := trajectories(t)
	var want map[string]array.Array
	for _, mesh := range []string{"", "dp=2,ep=2", "tp=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		run, err := Open(t.Context(), r.linear(t, Config{Optimizer: AdamW(AdamWOptions{}), Average: 0.9}), gomoe.Config{Mesh: m})
		require.NoError(t, err)
		require.NoError(t, run.Init(t.Context(), 5))
		got := map[string]array.Array{}
		for name, a := range run.State() {
			got[name], err = a.Get()
			require.NoError(t, err)
		}
		require.NoError(t, run.Close())
		if want == nil {
			want = got
		}
		for name, a := range got {
			if !array.Equal(a, want[name]) {
				t.Errorf("%s on %q begins otherwise than on one rank", name, mesh)
			}
		}
		if !array.Equal(got["average/w"], got["w"]) || array.Equal(got["w"], array.New(got["w"].Type)) {
			t.Errorf("the average begins with %v, the parameter with %v", got["average/w"], got["w"])
		}
	}
}

func TestSchedules(t *testing.T) {
	b, err := os.ReadFile("testdata/schedules.json")
	require.NoError(t, err)
	var recorded map[string][]float64
	require.NoError(t, json.Unmarshal(b, &recorded))
	all := map[string]Schedule{
		"cosine": Cosine(0.003, 4, 20, 0.1), "linear": Linear(0.003, 4, 20, 0.1), "wsd": WSD(0.003, 4, 6, 20, 0.1),
	}
	require.Len(t, recorded, len(all))
	for name, rate := range all {
		for i, want := range recorded[name] {
			if got := rate(i + 1); !(math.Abs(got-want) <= 1e-6*0.003) {
				t.Errorf("%s: rate %v in step %d, want %v", name, got, i+1, want)
			}
		}
	}
	if got := Constant(0.5)(7); got != 0.5 {
		t.Errorf("constant: %v, want 0.5", got)
	}
	for name, s := range map[string]Schedule{"cosine": Cosine(1, 0, 10, 0.1), "linear": Linear(1, 0, 10, 0.1), "wsd": WSD(1, 0, 5, 10, 0.1)} {
		if got := s(0); got != 1 {
			t.Errorf("%s without warmup begins with %v, want 1", name, got)
		}
	}
	if got := Cosine(1, 0, 10, 0)(10); got != 0 {
		t.Errorf("cosine without a warm-up ends with %v, want 0", got)
	}
}

func TestRefuses(t *testing.T) {
	adam := AdamW(AdamWOptions{})
	model := func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		return primitives.ReduceSum(s.Param("w", "", nn.Init{}, nil, 4)), nil
	}
	for want, c := range map[string]Config{
		"train: step: no optimiser, want one in Config.Optimizer":         {},
		`train: step: zero "all", want nothing, "moments" or "weights"`:   {Optimizer: adam, Zero: "all"},
		`train: step: zero "weights" splits over the axes of the batch`:   {Optimizer: adam, Zero: ZeroWeights},
		"train: step: average 1, want at least 0 and less than 1":         {Optimizer: adam, Average: 1},
		"muon: w is f32[4], want a matrix or a stack of matrices":         {Optimizer: Muon(MuonOptions{})},
		"w is updated already; a transformation such as AdamW comes last": {Optimizer: Chain(adam, ScaleByAdam(0.9, 0.9, 1e-8, graph.F32))},
		"input m/w is declared twice":                                     {Optimizer: Chain(ScaleByAdam(0.9, 0.9, 1e-8, graph.F32), ScaleByAdam(0.9, 0.9, 1e-8, graph.F32), ScaleByRate)},
		"state x/w has no new value; set it with Step.Keep":               {Optimizer: Chain(func(s *Step, us []*Update) { s.State(us[0], "x", graph.F32) }, ScaleByRate)},
		"state x/w is not declared; call Step.State first":                {Optimizer: func(s *Step, us []*Update) { s.Keep(us[0], "x", us[0].Value) }},
		"clip by global norm: limit -1, want a number above 0":            {Optimizer: Chain(ClipByGlobalNorm(-1), adam)},
		`pattern "[": syntax error in pattern`:                            {Optimizer: On(Named("["), adam)},
		"on: none of the parameters is selected; there are w":             {Optimizer: Chain(On(Not(Named("w")), adam), adam)},
		"named: no patterns":   {Optimizer: Chain(On(Not(Named()), adam), adam)},
		"w is updated already": {Optimizer: Chain(adam, Freeze)},
	} {
		_, err := Trace("step", c, model)
		require.ErrorContains(t, err, want)
	}
	for name, o := range map[string]Transform{
		"nothing": Chain(), "clipped": ClipByGlobalNorm(1), "decayed": Decay(0.1, All), "moments": ScaleByAdam(0.9, 0.9, 1e-8, graph.F32),
	} {
		_, err := Trace("step", Config{Optimizer: o}, model)
		require.ErrorContains(t, err, `w is not updated by the optimiser; give it to one, such as AdamW or SGD, or to ScaleByRate, or leave it as it is with On(Named("w"), Freeze)`, name)
	}
	_, err := Trace("step", Config{Optimizer: adam}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		return primitives.ReduceSum(s.Tracer().Input("x", graph.F32, 3)), nil
	})
	require.ErrorContains(t, err, "the model has no parameters; declare them in the scope")
	p, err := Trace("step", Config{Optimizer: On(Named("?", "w*"), adam)}, model)
	require.NoError(t, err)
	require.Len(t, p.State, 3)
	_, err = Open(t.Context(), p, gomoe.Config{Place: map[string]sharding.Spec{"w": {}}})
	require.ErrorContains(t, err, "train: step: w is placed by its parameter's nn.Param.Place")
}

// Every pattern has to match a parameter, wherever a Select is used and whatever other patterns match.
func TestNamedMatchesNothing(t *testing.T) {
	model := func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		sum := primitives.ReduceSum(s.Param("mlp.experts.up_proj", "", nn.Init{}, nil, 2, 3, 4))
		for _, name := range []string{"mlp.norm.weight", "bias"} {
			sum = primitives.Add(sum, primitives.ReduceSum(s.Param(name, "", nn.Init{}, nil, 4)))
		}
		return sum, nil
	}
	adam := AdamW(AdamWOptions{})
	wrong := Named("bias", "mlp.expert.*")
	adamOn := func(s Select) Transform { return AdamW(AdamWOptions{DecayOn: s}) }
	for name, o := range map[string]Transform{
		"on":              Chain(On(wrong, adam), On(Not(Named("bias")), adam)),
		"not":             On(Not(wrong), adam),
		"not, twice":      On(Not(Not(wrong)), adam),
		"adamw":           adamOn(wrong),
		"adamw on others": Chain(On(Named("mlp.*"), adamOn(Not(wrong))), On(Named("bias"), adam)),
		"sgd":             SGD(SGDOptions{DecayOn: wrong, Decay: 0.1}),
		"lion":            Lion(LionOptions{DecayOn: wrong}),
		"adafactor":       Adafactor(AdafactorOptions{DecayOn: wrong}),
		"muon":            Chain(Decay(0.1, wrong), adam),
	} {
		_, err := Trace("step", Config{Optimizer: o}, model)
		require.ErrorContains(t, err, `named: no parameter matches the pattern "mlp.expert.*"; did you mean mlp.experts.up_proj?`, name)
	}
	_, err := Trace("step", Config{Optimizer: adamOn(Named("q_proj"))}, model)
	require.ErrorContains(t, err, `named: no parameter matches the pattern "q_proj"; there are mlp.experts.up_proj, mlp.norm.weight, bias`)
	// Parameters that the On around a pattern does not select count, and those that are frozen.
	_, err = Trace("step", Config{Optimizer: Chain(On(Named("mlp.*"), adamOn(Not(Named("bias")))), On(Named("bias"), adam))}, model)
	require.NoError(t, err)
	_, err = Trace("step", Config{Optimizer: adamOn(Not(Named("first.bias"))), Model: nn.Options{LoRA: &nn.LoRA{Rank: 1, Targets: []string{"first"}}}}, adapted)
	require.NoError(t, err)
}

// A parameter that no part of the optimiser updates is an error, and one that Freeze is given keeps its bits.
func TestFreeze(t *testing.T) {
	r := trajectories(t)
	adam := AdamW(AdamWOptions{Decay: 0.1})
	rest := On(Not(Named("w*")), adam)
	_, err := Trace("step", Config{Optimizer: rest}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		return primitives.Add(primitives.ReduceSum(s.Param("v", "", nn.Init{}, nil, 4)), primitives.ReduceSum(s.Param("wide", "", nn.Init{}, nil, 4))), nil
	})
	require.ErrorContains(t, err, "wide is not updated by the optimiser")
	for _, zero := range []Zero{ZeroOff, ZeroWeights} {
		m, err := sharding.ParseMesh("dp=2")
		require.NoError(t, err)
		got := r.follow(t, Config{Optimizer: Chain(On(Named("w*"), Freeze), rest), Zero: zero, Batch: []string{"dp"}}, gomoe.Config{Mesh: m})
		for param, start := range r.Start {
			now := array.Data[float32](got[len(got)-1][param])
			if frozen := param[0] == 'w'; slices.Equal(now, start) != frozen {
				t.Errorf("zero %q: %s is %v after %d steps and was %v; it is frozen: %v", zero, param, now, len(got), start, frozen)
			}
		}
	}
}

// Compiling a step, an evaluation and the first state ends with its context, and so does planning what a lighter step takes.
func TestCompileEndsWithContext(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	p := trajectories(t).linear(t, Config{Optimizer: SGD(SGDOptions{})})
	_, err := Open(ctx, p, gomoe.Config{})
	require.ErrorIs(t, err, why)
	step := gomoe.Setting{Program: func() (*graph.Program, gomoe.Config, error) {
		cfg, err := p.Placed(gomoe.Config{})
		return p.Program, cfg, err
	}}
	require.ErrorIs(t, gomoe.Lighter(ctx, &gomoe.TooLargeError{Ranks: 1, Of: 1}, step, nil), why)
	run, err := Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	defer run.Close()
	require.ErrorIs(t, run.Init(ctx, 1), why)
	_, err = run.Evaluation(ctx, "held", gomoe.Config{}, func(s *nn.Scope) []*graph.Value { return []*graph.Value{s.Tracer().Input("y", graph.F32, 1)} })
	require.ErrorIs(t, err, why)
}
