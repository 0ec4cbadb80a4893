package text

import "math"

// UnigramEntropy returns -Σ p(b) ln p(b) over the byte values b of the training text, where p is their frequency
// there, in nats per byte and in bits per byte. It is a lower bound on the mean cross entropy of models ignoring
// all context, so a loss below it, in nats, shows that the model uses context. It lies between 0, for a single byte
// value, and ln 256 ≈ 5.545 nats or 8 bits.
func (c *Corpus) UnigramEntropy() (nats, bits float64) {
	var counts [256]int
	for _, b := range c.Train {
		counts[b]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(c.Train))
			nats -= p * math.Log(p)
		}
	}
	return nats, nats / math.Ln2
}
