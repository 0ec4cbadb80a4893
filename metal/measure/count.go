package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomoe/gomoe/metal/counts"
)

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
