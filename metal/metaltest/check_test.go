package metaltest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/sharding"
)

// made serves one instruction, exp if not named, with a function that a test makes.
type made struct {
	name    string
	bodies  []string // of all cases of a test, which share a library
	index   int      // of body
	body    string   // of a thread per element; i is its number, n how many there are
	threads int
	change  func(*kernels.Program, *kernels.Kernel)
	refuse  string
}

// Name returns "metal".
func (made) Name() string { return "metal" }

func (m made) Serves(p *lowering.Plan, i int) string {
	if p.Instrs[i].Name() != cmp.Or(m.name, "exp") {
		return "no kernel"
	}
	return m.refuse
}

func (m made) build(in *kernels.Instr) (*kernels.Program, *kernels.Kernel, error) {
	const begin = `struct Sizes { int n, columns, experts, align; };
`
	const function = `kernel void test_INDEX(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], device const int* zones [[buffer(2)]], constant Sizes& p [[buffer(3)]],
                     device float* scratch [[buffer(4)]], device atomic_int* status [[buffer(5)]],
                     uint at [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  int i = int(at), n = p.n;
  BODY
}
`
	text := begin
	for i, body := range m.bodies {
		text += strings.NewReplacer("INDEX", fmt.Sprint(i), "BODY", body).Replace(function)
	}
	threads, n := max(m.threads, 32), in.Args[0].Type.Len()
	zones, columns := kernels.In(0), 1
	if in.Ragged() {
		zones, columns = kernels.Zones(), in.Args[0].Type.Shape[1]
	}
	p := &kernels.Program{Scratch: []int{4 * n}, Launches: []kernels.Launch{{
		Source: kernels.Source{Made: text}, Function: fmt.Sprintf("test_%d", m.index),
		Groups: [3]int{(n + threads - 1) / threads, 1, 1}, Threads: [3]int{threads, 1, 1},
		Args: []kernels.Arg{kernels.In(0), kernels.Out(0), zones, kernels.Params(n, columns, in.Experts(), in.Align), kernels.Scratch(0), kernels.Status()},
	}}}
	k := &kernels.Kernel{Name: "test", Tolerance: kernels.Tolerance{Relative: 1e-6}}
	if m.change != nil {
		m.change(p, k)
	}
	return p, k, nil
}

func (m made) backend() backend { return backend{target: m, build: m.build} }

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}
func (r *recorder) Error(a ...any) { r.errors = append(r.errors, fmt.Sprint(a...)) }
func (r *recorder) Failed() bool   { return len(r.errors) > 0 }

// outcome checks a program with made functions and returns what the check reports.
func outcome(t *testing.T, src string, m made, o Options, cfg gomoe.Config) string {
	t.Helper()
	p, err := gomoe.Parse("test", src)
	require.NoError(t, err)
	return outcomeOf(t, p, m, o, cfg)
}

func outcomeOf(t *testing.T, p *graph.Program, m made, o Options, cfg gomoe.Config) string {
	t.Helper()
	in := map[string]array.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		x := make([]float64, v.Type.Len())
		for i := range x {
			x[i] = float64(i%7) / 3
			if !v.Type.DType.IsFloat() {
				x[i] = float64(i * 5 % 7 % 4)
			}
		}
		require.NoError(t, a.SetFloat64s(x))
		in[v.Name] = a
	}
	r := &recorder{TB: t}
	cfg.Threads = 1
	check(r, p, cfg, in, o, m.backend())
	return strings.Join(r.errors, "\n")
}

const plain = "program p(x f32[5,9]) {\n\ty = exp(x)\n\tz = exp(y)\n\treturn z\n}"

// Of two instructions one after the other, the second takes the memory of its argument.
func TestCheck(t *testing.T) {
	const right = "if (i < n) y[i] = exp(x[i]);"
	cases := []struct {
		name string
		made made
		o    Options
		want string
	}{
		{name: "right", made: made{body: right}, o: Options{Instructions: []string{"exp"}}},
		{name: "right without a list", made: made{body: right}},
		{name: "wrong", made: made{body: "if (i < n) y[i] = exp(x[i]) * 1.00001;"}, want: "leader, forward order: result 0: element"},
		{name: "within a program's tolerance", made: made{body: "if (i < n) y[i] = exp(x[i]) * 1.00001;", change: func(p *kernels.Program, _ *kernels.Kernel) {
			p.Tolerance = &kernels.Tolerance{Relative: 2e-5}
		}}},
		{name: "an element is not written", made: made{body: "if (i < n - 1) y[i] = exp(x[i]);"}, want: "element 44 of f32[5,9] is NaN"},
		{name: "past the result", made: made{body: "y[i] = exp(x[min(i, n - 1)]);"}, want: "buffer 1 (y)"},
		{name: "past the argument", made: made{body: "float v = x[i + 512]; if (i < n) y[i] = exp(x[i]) + 0 * v;"}, want: "buffer 0 (x): byte"},
		{name: "an argument is written", made: made{body: "if (i < n) { y[i] = exp(x[i]); ((device float*)x)[i] = 0; }"}, want: "an argument was written to: argument 0"},
		{name: "by the order of threads", made: made{threads: 64, body: "threadgroup float last; if (i == 0) last = 0; last = float(tid); if (i < n) y[i] = exp(x[i]) * (1 + last * 1e-9);" +
			" threadgroup_barrier(mem_flags::mem_threadgroup); if (i == 0) y[0] = last < 1 ? y[0] : y[0] * 1.0000002;"}, want: "is not the same in leader, forward order and in leader, reverse order"},
		// Lane 0 reads what others may not have written yet; with the leader it is lane 0 that writes all.
		{name: "by the mode", made: made{body: "threadgroup float m[64]; simdgroup_float8x8 ones = make_filled_simdgroup_matrix<float, 8>(1.0f); simdgroup_store(ones, m, 8);" +
			" if (i < n) y[i] = exp(x[i]) * (tid == 0 ? m[63] : 1.0f);"}, want: "is not the same in leader, forward order and in distributed, forward order: element 0"},
		{name: "scratch that nobody wrote", made: made{body: "if (i < n) y[i] = exp(x[i]) + scratch[i];"}, want: "is NaN"},
		{name: "a status", made: made{body: right + " if (i == 7) atomic_fetch_min_explicit(status, i, memory_order_relaxed);", change: func(p *kernels.Program, _ *kernels.Kernel) {
			p.Fault = func(r [kernels.StatusLen]int32) error { return fmt.Errorf("element %d is bad", r[0]) }
		}}, want: "the device reports what the host does not: element 7 is bad"},
		{name: "a status without a Fault", made: made{body: right + " if (i == 7) atomic_fetch_min_explicit(status, i, memory_order_relaxed);"}, want: "the program has no Fault"},
		{name: "it is not compared", made: made{body: right, refuse: "too small"}, want: "no instruction was compared:\n  exp: too small"},
		{name: "one is not compared", made: made{body: right}, o: Options{Instructions: []string{"exp", "log"}}, want: "instruction log was not compared"},
		{name: "the step does not fail", made: made{body: right}, o: Options{Fails: "bad"}, want: "the step has no error"},
	}
	var bodies []string
	for _, c := range cases {
		bodies = append(bodies, c.made.body)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.made.bodies, c.made.index = bodies, i
			got := outcome(t, plain, c.made, c.o, gomoe.Config{Optimize: gomoe.Off})
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the check reports %q, want %q", got, c.want)
			}
		})
	}
}

const routed = `program p(x f32[8,4], ids i32[8,2]) {
	r, drop, c, pad, demand = ep_prepare(ids) experts=4 align=4 axis="a"
	rows = ep_dispatch(x, r) experts=4 align=4 axis="a"
	y = exp(rows)
	z = ep_combine(y, r) experts=4 align=4 axis="a"
	return z
}`

// Of ragged rows those in use count, those that fill zones are zeros, and nobody
// touches what is behind.
func TestCheckRagged(t *testing.T) {
	const zones = `
  int row = i / p.columns, begin = 0, kind = 2;
  for (int e = 0; e < p.experts && kind == 2; e++) {
    int length = p.align > 1 ? (zones[e] + p.align - 1) / p.align * p.align : zones[e];
    if (row < begin + length) kind = row - begin < zones[e] ? 0 : 1;
    begin += length;
  }
  if (i >= n) kind = 3;
`
	cases := []struct{ name, body, want string }{
		{"right", "if (kind == 0) y[i] = exp(x[i]); if (kind == 1) y[i] = 0;", ""},
		{"gaps are not zeroed", "if (kind == 0) y[i] = exp(x[i]);", "is NaN, want 0"},
		{"gaps are read", "if (kind < 2) y[i] = exp(x[i]) * (kind == 0 ? 1.0 : 0.0);", "is NaN, want 0"},
		{"all is written", "if (kind < 3) y[i] = kind == 0 ? exp(x[i]) : 0;", "was written, zones end at row"},
	}
	var bodies []string
	for _, c := range cases {
		bodies = append(bodies, zones+c.body)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(t, routed, made{bodies: bodies, index: i}, Options{Instructions: []string{"exp"}}, gomoe.Config{Mesh: mesh(t), Place: map[string]sharding.Spec{"x": sharding.Split("a"), "ids": sharding.Split("a")}})
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the check reports %q, want %q", got, c.want)
			}
		})
	}
}

func mesh(t *testing.T) sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	return m
}

// Where the host fails, the device has to report the same.
func TestCheckFails(t *testing.T) {
	const src = "program p(x f32[3,2], ids i32[6]) {\n\ty = embedding(x, ids)\n\treturn y\n}"
	fault := func(p *kernels.Program, _ *kernels.Kernel) {
		p.Fault = func(r [kernels.StatusLen]int32) error { return fmt.Errorf("id %d is 3", r[0]) }
	}
	cases := []struct{ name, body, fails, want string }{
		{"both", "if (i == 2) atomic_fetch_min_explicit(status, i, memory_order_relaxed);", "3", ""},
		{"other words", "if (i == 2) atomic_fetch_min_explicit(status, i, memory_order_relaxed);", "embedding", "the device reports id 2 is 3, want an error with"},
		{"the device does not", "if (i < n) y[i] = 0;", "3", "the device reports <nil>, want an error with"},
		{"the host's other words", "if (i == 2) atomic_fetch_min_explicit(status, i, memory_order_relaxed);", "bad", "the step's error is"},
		{"no error is expected", "if (i < n) y[i] = 0;", "", "the step's error is"},
	}
	var bodies []string
	for _, c := range cases {
		bodies = append(bodies, c.body)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(t, src, made{name: "embedding", bodies: bodies, index: i, change: fault}, Options{Fails: c.fails}, gomoe.Config{})
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the check reports %q, want %q", got, c.want)
			}
		})
	}
}
