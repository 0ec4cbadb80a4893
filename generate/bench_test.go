package generate

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkChoose chooses among as many tokens as a large vocabulary has.
func BenchmarkChoose(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 150_000)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 3)
	}
	for name, s := range map[string]Sampling{"greedy": {}, "temperature": {Temperature: 0.8}, "top_p": {Temperature: 0.8, TopP: 0.9}, "top_k": {Temperature: 0.8, TopK: 40}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Choose(logits, []int32{1}, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
