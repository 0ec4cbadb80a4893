package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
)

// BenchmarkExperts runs the layer forward with more and more experts, for the same
// tokens and so the same products. What may grow is the traffic of weights: beside
// the time stands that of reading all weights once, by the same two threads.
func BenchmarkExperts(b *testing.B) {
	for _, experts := range []int{8, 32, 128, 256} {
		b.Run(fmt.Sprintf("E=%d", experts), func(b *testing.B) {
			p, err := moeLayerOf(experts)
			require.NoError(b, err)
			job, err := gomoe.Open(b.Context(), p, gomoe.Config{})
			require.NoError(b, err)
			defer job.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			in := map[string]*runtime.Array{}
			var weights [][]byte
			for _, v := range p.In {
				a := array.New(v.Type)
				x := array.Data[float32](a)
				for i := range x {
					x[i] = float32(rng.Float64() - 0.5)
				}
				if v.Type.Rank() == 3 {
					weights = append(weights, a.Bytes())
				}
				in[v.Name], err = job.Put(v.Name, a)
				require.NoError(b, err)
			}
			for b.Loop() {
				_, err := job.Run(context.Background(), in)
				require.NoError(b, err)
			}
			b.StopTimer()
			began, n := time.Now(), 0
			for time.Since(began) < 200*time.Millisecond {
				readAll(weights)
				n++
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1e3/float64(n), "ms/read")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/op")
		})
	}
}

// readAll reads the memory with two goroutines, as fast as plain Go does: one word
// of every line.
func readAll(mem [][]byte) {
	sums := make(chan int, 2)
	for part := range 2 {
		go func() {
			sum := 0
			for _, m := range mem {
				m = m[len(m)*part/2 : len(m)*(part+1)/2]
				for i := 0; i+256 <= len(m); i += 256 {
					sum += int(m[i]) + int(m[i+64]) + int(m[i+128]) + int(m[i+192])
				}
			}
			sums <- sum
		}()
	}
	<-sums
	<-sums
}
