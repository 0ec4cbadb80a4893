package measure

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// Operations and bytes of the model's instructions, by hand.
func TestWork(t *testing.T) {
	cases, err := Cases(Model())
	require.NoError(t, err)
	want := map[string][2]int64{
		"dot_general dot_general":                           {2 * 1024 * 512 * 1024, 4 * (1024*512 + 512*1024 + 1024*1024)},
		"dot_general bf16, decode dot_general":              {2 * 512 * 1024, 2 * (512 + 512*1024 + 1024)},
		"dot_general q8_0 dot_general_blocks":               {2 * 1024 * 512 * 1024, 4*(1024*512+1024*1024) + 34*512*1024/32},
		"grouped_matmul grouped_matmul":                     {2 * 2048 * 512 * 1024, 4 * (1024*512 + 8*512*1024 + 2048*1024)},
		"grouped_matmul q8_0, decode grouped_matmul_blocks": {2 * 2 * 512 * 1024, 4*(2*512+2*1024) + 2*34*512*1024/32},
		"scaled_matmul scaled_matmul":                       {2 * 1024 * 512 * 1024, 2*(1024*512+1024*1024) + 512*1024 + 4*8*4},
		"grouped_affine_matmul grouped_affine_matmul":       {2 * 2048 * 512 * 1024, 2*(2048*512+2048*1024) + 8*(512*1024/2+2*2*512*1024/32)},
		"attention attention":                               {2 * 8 * 1024 * 1024 * 64, 4 * (4*1024*8*64 + 8*1024)},
		"attention attention_grad":                          {5 * 8 * 1024 * 1024 * 64, 4 * (8*1024*8*64 + 2*8*1024)},
		"embedding embedding":                               {0, 4 * (1024 + 2*1024*512)},
		"add bf16 add":                                      {0, 2 * 3 * 1024 * 1024},
		"dynamic_slice dynamic_slice":                       {0, 4 * (2*512 + 2)},
	}
	for _, c := range cases {
		plan, err := c.planFor(kernels.Metal{})
		require.NoError(t, err)
		tasks, order, err := c.tasks(plan, false)
		require.NoError(t, err)
		for _, i := range order {
			w, ok := want[c.Name+" "+tasks[i].row.Instruction]
			if !ok {
				continue
			}
			delete(want, c.Name+" "+tasks[i].row.Instruction)
			rows := 2048
			if c.Program.In[0].Type.Shape[0] == 1 {
				rows = 2
			}
			flops, bytes := work(tasks[i].in, tasks[i].row.Kernel, rows)
			if flops != w[0] || bytes < w[1] || bytes > w[1]+w[1]/50 { // indices count, too
				t.Errorf("%s %s: %d operations and %d bytes, want %d and %d", c.Name, tasks[i].row.Instruction, flops, bytes, w[0], w[1])
			}
		}
	}
	for name := range want {
		t.Errorf("there is no row %s", name)
	}
}

// Operands that share memory on the host share it on the device.
func TestAreas(t *testing.T) {
	all := array.New(graph.T(graph.F32, 64))
	part := func(from, to int) array.Array {
		return array.Over(graph.T(graph.F32, to-from), all.Bytes()[4*from:4*to])
	}
	plan := &lowering.Plan{Instrs: []lowering.Instr{{In: []int{2, 0, 3}, Out: []int{1, 4}, Zones: -1}}, Bufs: make([]lowering.Buffer, 5)}
	k := runtime.Observed{Plan: plan, In: []array.Array{part(32, 40), part(0, 8), part(8, 16)}, Out: []array.Array{part(0, 8), part(36, 48)}}
	got := areas(k)
	var at [][2]int
	for _, a := range got {
		at = append(at, [2]int{int(uintptr(unsafe.Pointer(&a[0]))-uintptr(unsafe.Pointer(&all.Bytes()[0]))) / 4, len(a) / 4})
	}
	require.Equal(t, [][2]int{{0, 8}, {8, 8}, {32, 16}}, at)
}

// The ratio is to the GPU's own time, if it says that.
func TestRow(t *testing.T) {
	r := Row{Kernel: "rope", Case: "rope", Instruction: "rope", Host: 10 * time.Millisecond, Wall: 5 * time.Millisecond, GPU: 2 * time.Millisecond, FLOPs: 4e9, Bytes: 1e9, Difference: 1e-7, Share: 0.5}
	const want = "rope           rope                           rope                     10.000     5.000     2.000     5.00   2000.0   500.00   1.0e-07    0.50"
	require.Equal(t, want, r.String())
	require.Equal(t, len(want), len(Header()))
	r.GPU = 0
	require.Equal(t, 2.0, r.Ratio())
	for share, wrong := range map[float64]bool{0: false, 1: false, 1.01: true, -1: true} {
		r.Share = share
		require.Equal(t, wrong, r.Wrong(), share)
	}
}
