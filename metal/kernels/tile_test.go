package kernels_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/metal/kernels"
)

// built returns the first instruction of the name that rank 0 has, and its program.
func built(t *testing.T, src string, cfg gomoe.Config, name string) (*kernels.Instr, *kernels.Program) {
	t.Helper()
	p, err := gomoe.Parse("t", src)
	require.NoError(t, err)
	cfg.Target = kernels.Metal{}
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	for i := range plan.Instrs {
		if in := kernels.Of(plan, i, 0); in.Name() == name {
			p, _, err := kernels.Build(in)
			require.NoError(t, err)
			return in, p
		}
	}
	t.Fatalf("no instruction %s in\n%s", name, plan)
	return nil, nil
}

// Tiles go by rows, which are those of the two operands' that are fewer if few; what lies
// side by side is read so, and 4 at a time where every row begins at a multiple of 4.
func TestTileOf(t *testing.T) {
	for _, c := range []struct {
		x, y                             string
		params                           string
		function                         string
		swapped                          bool
		aAcross, bAcross, aFours, bFours bool
	}{
		{"f32[32,40]", "f32[40,64]", "lhs_contract=[1] rhs_contract=[0]", "dot_general_few_f32", false, false, true, true, true},
		{"f32[33,40]", "f32[40,66]", "lhs_contract=[1] rhs_contract=[0]", "dot_general_many_f32", false, false, true, true, false},
		{"f16[33,42]", "f16[66,42]", "lhs_contract=[1] rhs_contract=[1]", "dot_general_many_f16", false, false, false, false, false},
		{"bf16[40,33]", "bf16[40,66]", "lhs_contract=[0] rhs_contract=[0]", "dot_general_many_bf16", false, true, true, false, false},
		{"f32[100,40]", "f32[40,8]", "lhs_contract=[1] rhs_contract=[0]", "dot_general_few_f32", true, true, false, true, true},
		{"f32[1,41]", "f32[41,64]", "lhs_contract=[1] rhs_contract=[0]", "dot_matvec_across_1", false, false, true, true, true},
		{"f32[2,33]", "f32[8,33]", "lhs_contract=[1] rhs_contract=[1]", "dot_matvec_along_4", false, false, false, false, false},
		// Matrices that begin at any even element, and rows of them that are 12 apart.
		{"f32[40,2,6]", "f32[2,6,8]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[1] rhs_batch=[0]", "dot_general_few_f32", true, true, false, true, false},
	} {
		what := fmt.Sprintf("%s · %s, %s", c.x, c.y, c.params)
		_, p := built(t, dotText(c.x, c.y, c.params), gomoe.Config{}, "dot_general")
		require.Len(t, p.Launches, 1, what)
		l := p.Launches[0]
		require.Equal(t, c.function, l.Function, what)
		require.Equal(t, c.swapped, l.Args[0].Index == 1, what)
		require.Equal(t, []any{c.aAcross, c.bAcross, c.aFours, c.bFours}, []any{l.Constants[3], l.Constants[4], l.Constants[5], l.Constants[6]}, what)
	}
}

// The tile for experts' rows goes by how many an expert has if all have as many, not by
// how many there is room for on a rank that gets all.
func TestTileOfExperts(t *testing.T) {
	e := experts{d: graph.F32, tokens: 128, experts: 8, hidden: 4, width: 4, all: 4}
	for mesh, want := range map[string]string{"": "few", "ep=2": "few"} { // 32 rows
		in, p := built(t, e.text(), e.config(t, mesh), "grouped_matmul")
		require.Equal(t, 256, in.Args[0].Type.Shape[0])
		require.Equal(t, "grouped_matmul_"+want+"_f32", p.Launches[0].Function, "mesh %q", mesh)
	}
	e.tokens = 136
	_, p := built(t, e.text(), e.config(t, "ep=2"), "grouped_matmul")
	require.Equal(t, "grouped_matmul_many_f32", p.Launches[0].Function)
}

// There is a threadgroup for every tile, however rows are spread over experts, and no
// more than there are rows.
func TestTileGroups(t *testing.T) {
	e := experts{d: graph.F32, tokens: 128, experts: 8, hidden: 4, width: 130, all: 4}
	_, p := built(t, e.text(), e.config(t, ""), "grouped_matmul")
	require.Equal(t, [3]int{3, (256 + 8*15) / 16, 1}, p.Launches[0].Groups)
	e.tokens = 3
	_, p = built(t, e.text(), e.config(t, ""), "grouped_matmul")
	require.Equal(t, [3]int{3, 6, 1}, p.Launches[0].Groups)
	_, p = built(t, e.text(), e.config(t, ""), "grouped_outer")
	require.Equal(t, [3]int{3, 1, 8}, p.Launches[0].Groups)
}

// What functions take is there, and simdgroups are whole but where one thread is enough.
func TestFunctions(t *testing.T) {
	for _, k := range kernels.All() {
		for _, f := range k.Functions {
			if f.Memory > 32<<10 || f.Threads > 1024 || f.Threads%32 != 0 && f.Threads != 1 {
				t.Errorf("%s: %+v, want at most 32 KiB and 1024 threads in simdgroups of 32", k.Name, f)
			}
		}
	}
}

// Work counts two operations for a product, and each operand once; of experts' rows those
// in use, and matrices of no more experts than have one.
func TestWork(t *testing.T) {
	in, _ := built(t, dotText("bf16[3,20,12]", "bf16[3,12,9]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[0] rhs_batch=[0] dtype=f32"), gomoe.Config{}, "dot_general")
	flops, bytes, ok := kernels.Work(in, 0)
	require.Equal(t, []any{int64(2 * 3 * 20 * 12 * 9), int64(2*(3*20*12+3*12*9) + 4*3*20*9), true}, []any{flops, bytes, ok})

	e := experts{d: graph.F32, tokens: 128, experts: 8, hidden: 5, width: 3, all: 7}
	for _, c := range []struct {
		name         string
		rows         int
		flops, bytes int64
	}{
		{"grouped_matmul", 100, 2 * 100 * 15, 4 * (100*5 + 100*3 + 8*15)},
		{"grouped_matmul", 2, 2 * 2 * 15, 4 * (2*5 + 2*3 + 2*15)},
		{"grouped_outer", 100, 2 * 100 * 15, 4 * (100*5 + 100*3 + 8*15)},
		{"grouped_outer", 0, 0, 4 * 8 * 15},
		{"dot_general", 10, 2 * 10 * 35, 4 * (10*5 + 10*7 + 35)},
	} {
		in, _ := built(t, e.text(), gomoe.Config{}, c.name)
		flops, bytes, ok := kernels.Work(in, c.rows)
		require.Equal(t, []any{c.flops, c.bytes, true}, []any{flops, bytes, ok}, "%s of %d rows", c.name, c.rows)
	}
	sum := *in.Instr
	sum.Op = ops.ReduceSum
	_, _, ok = kernels.Work(&kernels.Instr{Instr: &sum}, 0)
	require.False(t, ok, "a sum is no product")
}

// One kernel serves an instruction.
func TestServedOnce(t *testing.T) {
	by := map[ops.Op]string{}
	for _, k := range kernels.All() {
		for _, op := range k.Serves {
			if other, ok := by[op]; ok {
				t.Errorf("%s is served by %s and by %s", op, other, k.Name)
			}
			by[op] = k.Name
		}
	}
}
