package measure

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/kernels"
)

// work returns the floating-point operations of an instruction, 0 if they are not counted, and its
// bytes. rows is the number of ragged rows in use.
func work(in *kernels.Instr, kernel string, rows int) (flops, bytes int64) {
	of := func(o kernels.Operand) int64 {
		n := o.Type.Bytes()
		if o.Ragged && o.Type.Shape[0] > 0 {
			n = n / int64(o.Type.Shape[0]) * int64(rows)
		}
		return n
	}
	if flops, bytes, ok := kernels.Work(in, rows); ok {
		return flops, bytes
	}
	if in.Op == ops.GroupedMatMul|ops.Blocks || in.Op == ops.DotGeneral|ops.Blocks {
		return blocks(in, rows, of)
	}
	result := int64(0)
	for _, o := range in.Results {
		result += of(o)
	}
	for i, o := range in.Args {
		n := of(o)
		if i == 0 && (kernel == "lookup" || in.Op == ops.DynamicSlice) { // only part of the table is read
			n = min(n, result)
		}
		bytes += n
	}
	return attention(in), bytes + result
}

// blocks is work for products with weights in blocks. It counts as many experts' matrices as can
// have a row.
func blocks(in *kernels.Instr, rows int, of func(kernels.Operand) int64) (flops, bytes int64) {
	z := in.Results[0]
	if !z.Ragged {
		rows = z.Type.Len() / max(1, z.Type.Shape[z.Type.Rank()-1])
	}
	for _, o := range slices.Concat(in.Args, in.Results) {
		n, t := of(o), o.Type
		if !t.DType.IsBlock() {
			bytes += n
			continue
		}
		matrices := 1
		if t.Rank() == 3 {
			matrices = t.Shape[0]
		}
		each := int64(t.Len()) / int64(max(1, matrices))
		flops += 2 * int64(rows) * each
		bytes += n / int64(max(1, matrices)) * int64(min(rows, matrices))
	}
	return flops, bytes
}

// attention returns the operations of causal attention: half of two products of queries, keys and
// heads, or of five products for its gradient.
func attention(in *kernels.Instr) int64 {
	products := map[lowering.Op]int64{ops.Attention: 2, ops.AttentionGrad: 5}[in.Op]
	if products == 0 {
		return 0
	}
	q := in.Args[0].Type.Shape // [B,S,N,H]
	return products * int64(q[0]) * int64(q[2]) * int64(q[1]) * int64(q[1]) * int64(q[3])
}

// CountHeader returns the header of rows with counts.
func CountHeader() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %-30s %-21s %4s %4s %9s %9s %9s %9s %9s %9s %9s %9s %9s", "kernel", "case", "instruction", "disp", "barr", "loaded", "once", "written", "tg read", "tg writ", "mma16", "mma32", "tensor", "ops")
	for _, g := range counts.GPUs() {
		fmt.Fprintf(&b, " %10s", g.Name)
	}
	return b.String()
}

// countLine returns a row with counts as a line of a table: dispatches and the barriers between them, bytes of device and
// constant memory requested by threads, loaded once, and written, bytes of threadgroup memory, multiply-adds of matrices of
// 16 and 32 bits and of tensors, operations of threads, and the roofline time in microseconds on each of the GPUs, with a
// letter for the bottleneck.
func (r Row) countLine() string {
	var b strings.Builder
	k := r.Counts.Kernels
	fmt.Fprintf(&b, "%-14s %-30s %-21s %4d %4d", r.Kernel, r.Case, r.Instruction, r.Counts.Dispatches, r.Counts.Barriers)
	for _, n := range []int64{k.Device.Loaded + k.Constant.Loaded, k.Device.Once + k.Constant.Once, k.Device.Written,
		k.Threadgroup.Loaded, k.Threadgroup.Written, k.Products16, k.Products32, k.ProductsTensor, k.Operations} {
		fmt.Fprintf(&b, " %9s", short(n))
	}
	for _, g := range counts.GPUs() {
		if k.ProductsTensor > 0 && g.Tensor == 0 { // it runs other kernels
			fmt.Fprintf(&b, " %10s", "-")
			continue
		}
		d, by := g.Time(k)
		fmt.Fprintf(&b, " %8.2f %c", float64(d)/float64(time.Microsecond), by[0])
	}
	if r.Wrong() {
		b.WriteString("  WRONG")
	}
	return b.String()
}

// short returns n with a letter for thousands, millions or billions.
func short(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fG", float64(n)/1e9)
}
