package blocks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/numbers"
	"github.com/gomoe/gomoe/quant"
)

// BenchmarkQuantDot measures products of rounded rows with weights in blocks, in
// bytes of weights per second: with weights that stay in the second-level cache, and with
// so many that each comes from memory. BenchmarkRead measures memory alone.
func BenchmarkQuantDot(b *testing.B) {
	const k = 2048
	r := rand.New(rand.NewPCG(1, 1))
	for _, d := range quant.Types() {
		block, size := d.Block()
		row := k / block * size
		large := randomBlocks(r, d, 4096, k)
		for len(large) < 128<<20 {
			large = append(large, large...)
		}
		for _, v := range available() {
			for _, m := range []int{1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 256} {
				rows := quantRows(d, k, numbers.Normals[float32](r, m*k))
				for _, c := range []struct {
					name string
					n    int
				}{{"cache", 256 << 10 / row}, {"memory", len(large) / row}} {
					if c.name == "memory" && (v.set == nil || m > 2) || v.set == nil && m > 1 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/m=%d/%s", d, v.name, m, c.name), func(b *testing.B) {
						// The fastest of many pieces: other processes disturb longer runs.
						piece := min(c.n, 512<<10/row)
						y, at, best := make([]float32, m*piece), 0, time.Duration(math.MaxInt64)
						for b.Loop() {
							began := time.Now()
							v.set.multiply(d, m, piece, k, rows, large[at*row:], nil, y, piece, 1)
							best = min(best, time.Since(began))
							if at += piece; at+piece > c.n {
								at = 0
							}
						}
						b.ReportMetric(float64(piece*row)/best.Seconds()/1e9, "GB/s")
						b.ReportMetric(float64(m*piece*k)/best.Seconds()/1e9, "Gproduct/s")
					})
				}
			}
		}
	}
}

// BenchmarkQuantizeRow measures the rounding of a row, the fastest of many.
func BenchmarkQuantizeRow(b *testing.B) {
	const k = 2048
	x := numbers.Normals[float32](rand.New(rand.NewPCG(1, 1)), k)
	for _, d := range []graph.DType{graph.Q8_0, graph.Q4_K} {
		row := make([]byte, RowBytes(d, k))
		b.Run(d.String(), func(b *testing.B) {
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				began := time.Now()
				Round(d, k, row, x)
				best = min(best, time.Since(began))
			}
			b.ReportMetric(best.Seconds()*1e9/k, "ns/element")
		})
	}
}

// BenchmarkRead reads memory that no cache holds.
func BenchmarkRead(b *testing.B) {
	x := make([]uint64, 128<<20/8)
	for i := range x {
		x[i] = uint64(i)
	}
	const piece = 512 << 10 / 8
	var s [8]uint64
	at, best := 0, time.Duration(math.MaxInt64)
	for b.Loop() {
		began := time.Now()
		for i := at; i < at+piece; i += 8 {
			for j, v := range x[i : i+8] {
				s[j] += v
			}
		}
		best = min(best, time.Since(began))
		at = (at + piece) % len(x)
	}
	if s[0] == 1 {
		b.Log(s)
	}
	b.ReportMetric(piece*8/best.Seconds()/1e9, "GB/s")
}
