package blocks

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Every kernel decodes to the bits of the portable one, and touches nothing else.
func TestDecodeAffineAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, bits := range []int{4, 8} {
		for _, group := range []int{32, 64, 128} {
			for groups := range 5 {
				n := groups * group
				words := make([]byte, n*bits/8)
				for i := range words {
					words[i] = byte(r.Uint32())
				}
				scales, biases := numbers.Normals[float32](r, groups), numbers.Normals[float32](r, groups)
				var portable *set
				want := make([]float32, n)
				portable.decodeAffine(want, words, 0, 1, scales, biases, bits, group)
				for i := range want {
					q := int(words[i*bits/8]) >> (i * bits % 8) & (1<<bits - 1) // a byte is the lowest first
					product := float32(float32(q) * scales[i/group])            // rounded: arm64 would fuse it with the sum
					if sum := product + biases[i/group]; want[i] != sum {
						t.Fatalf("%d bits: number %d is %v, want %v", bits, i, want[i], sum)
					}
				}
				for _, v := range sets() {
					got := numbers.AtGuard(t, make([]float32, n))
					v.set.decodeAffine(got, numbers.AtGuard(t, words), 0, 1, numbers.AtGuard(t, scales), numbers.AtGuard(t, biases), bits, group)
					numbers.SameBits(t, fmt.Sprintf("%s, %d bits, %d groups of %d", v.name, bits, groups, group), got, want)
				}
			}
		}
	}
}

// Integers of other numbers of bits have no kernel, and are not read as those that have one.
func TestDecodeAffineBits(t *testing.T) {
	for _, bits := range []int{0, 2, 3, 5, 6, 12, 16} {
		require.PanicsWithValue(t, fmt.Sprintf("blocks: integers of %d bits, want 4 or 8", bits), func() {
			DecodeAffine(make([]float32, 32), make([]byte, 64), 0, 1, make([]float32, 1), make([]float32, 1), bits, 32)
		})
	}
}

// BenchmarkDecodeAffine measures numbers that are decoded in a second, the fastest of many rows.
func BenchmarkDecodeAffine(b *testing.B) {
	const n, group = 2048, 64
	r := rand.New(rand.NewPCG(1, 1))
	scales, biases, dst := numbers.Normals[float32](r, n/group), numbers.Normals[float32](r, n/group), make([]float32, n)
	for _, bits := range []int{4, 8} {
		for _, v := range available() {
			b.Run(fmt.Sprintf("%d/%s", bits, v.name), func(b *testing.B) {
				best, words := time.Hour, make([]byte, n*bits/8)
				for b.Loop() {
					began := time.Now()
					v.set.decodeAffine(dst, words, 0, 1, scales, biases, bits, group)
					best = min(best, time.Since(began))
				}
				b.ReportMetric(n/best.Seconds()/1e9, "Gnumber/s")
			})
		}
	}
}
