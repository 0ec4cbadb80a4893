package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// Row is what an instruction took.
type Row struct {
	Case        string `json:"case"`
	Kernel      string `json:"kernel"`
	Instruction string `json:"instruction"`
	Shape       string `json:"shape"` // the types of arguments and results
	// Host is the host kernel's median time, Wall the device's as its caller sees it, from
	// encoding to the end of waiting, and GPU what the device says that it took itself, 0
	// if it does not say.
	Host time.Duration `json:"host_ns"`
	Wall time.Duration `json:"wall_ns"`
	GPU  time.Duration `json:"gpu_ns"`
	// FLOPs are the floating-point operations of products and attention, 0 of others, and
	// Bytes what is read and written at the least.
	FLOPs int64 `json:"flops"`
	Bytes int64 `json:"bytes"`
	// Difference is the largest from the host's result, and Share the largest part of what
	// the kernel's tolerance allows: above 1 the result is wrong. Both are -1 where they
	// are no finite numbers.
	Difference float64 `json:"difference"`
	Share      float64 `json:"share_of_tolerance"`
}

// Wrong reports whether a result was farther from the host's than the kernel's tolerance.
func (r Row) Wrong() bool { return !(r.Share >= 0 && r.Share <= 1) }

// Device is the GPU's own time, or what there is instead.
func (r Row) Device() time.Duration {
	if r.GPU > 0 {
		return r.GPU
	}
	return r.Wall
}

// Ratio is how many times as long as the device the host takes.
func (r Row) Ratio() float64 { return float64(r.Host) / float64(max(1, r.Device())) }

// rate returns n per nanosecond of the device.
func (r Row) rate(n int64) float64 { return float64(n) / float64(max(1, r.Device())) }

// Header is the line above the lines of rows.
func Header() string {
	return fmt.Sprintf("%-14s %-30s %-21s %9s %9s %9s %8s %8s %8s %9s %7s", "kernel", "case", "instruction", "host ms", "wall ms", "gpu ms", "host/gpu", "GFLOP/s", "GB/s", "diff", "of tol")
}

// String returns the row as a line of a table; wrong results are marked at its end.
func (r Row) String() string {
	flops := "-"
	if r.FLOPs > 0 {
		flops = fmt.Sprintf("%.1f", r.rate(r.FLOPs))
	}
	gpu := "-"
	if r.GPU > 0 {
		gpu = ms(r.GPU)
	}
	mark := ""
	if r.Wrong() {
		mark = "  WRONG"
	}
	return fmt.Sprintf("%-14s %-30s %-21s %9s %9s %9s %8.2f %8s %8.2f %9s %7s%s", r.Kernel, r.Case, r.Instruction, ms(r.Host), ms(r.Wall), gpu, r.Ratio(), flops, r.rate(r.Bytes), number(r.Difference), number(r.Share), mark)
}

// JSON writes the row as a line of JSON.
func (r Row) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

func number(x float64) string {
	switch {
	case x < 0:
		return "inf"
	case x == 0:
		return "0"
	case x >= 0.01 && x < 100:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.1e", x)
}

// finite returns x, or -1, which JSON has.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return -1
	}
	return x
}
