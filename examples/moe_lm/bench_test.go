package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/runtime"
)

// BenchmarkStep is one training step of the default size on the default mesh, in
// each element type.
func BenchmarkStep(b *testing.B) {
	for _, dtype := range []string{"f32", "bf16"} {
		b.Run(dtype, func(b *testing.B) {
			c, o, err := parse([]string{"-dtype", dtype})
			require.NoError(b, err)
			tr := started(b, c, o, o.Mesh, o.Seed, runtime.Options{}, false)
			defer tr.Close()
			bytes, targets := make([]int32, o.Rows*o.Length), make([]int32, o.Rows*o.Length)
			for i := range bytes {
				bytes[i], targets[i] = int32(i*i%97), int32((i+1)*(i+1)%97)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				_, err := tr.train(context.Background(), n, 1e-3, bytes, targets)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.N*o.Rows*o.Length)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
