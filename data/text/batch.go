package text

import (
	"cmp"
	"fmt"
	"math/bits"
)

// Batch returns training windows: inputs[S,L] and targets[S,L] as byte values, row-major, for S sequences of length
// L. targets[s,l] is the byte following inputs[s,l]. A window may start anywhere in Train and may span files.
// Sequence s of a step depends only on the seed, step and s: not on the other sequences, previous calls, or the
// machine. So every rank can cut its own rows from the same batch, using Sequence. The caller owns the slices. It
// is an error if sequences or length is below 1, or if there are fewer than length+1 bytes to train on.
func (c *Corpus) Batch(step, sequences, length int) (inputs, targets []int32, err error) {
	if _, err := c.windows("train on", len(c.Train), sequences, length); err != nil {
		return nil, nil, err
	}
	inputs, targets = make([]int32, sequences*length), make([]int32, sequences*length)
	for s := range sequences {
		window(inputs[s*length:][:length], targets[s*length:][:length], c.Sequence(step, s, length))
	}
	return inputs, targets, nil
}

// Sequence returns the bytes of sequence s of a step, length+1 bytes of Train: the inputs and, shifted by one byte,
// the targets. Train must have that many bytes.
func (c *Corpus) Sequence(step, s, length int) []byte {
	// Each word is mixed in separately, so that (step 1, sequence 0) and (step 0, sequence 1) are unrelated.
	key := mix(mix(c.seed) + uint64(step))
	at, _ := bits.Mul64(mix(key+uint64(s)), uint64(len(c.Train)-length)) // uniform over the possible starts
	return c.Train[at:][:length+1]
}

// HeldBatch returns windows of the held-out text in the form of Batch. They are spread evenly over the text: the
// first at its beginning, the last at its end. They do not depend on the seed, so losses on them can be compared
// between steps and runs. They overlap if the text is shorter than sequences·length+1 bytes. Errors are as for
// Batch, about the held-out bytes.
func (c *Corpus) HeldBatch(sequences, length int) (inputs, targets []int32, err error) {
	starts, err := c.windows("hold out", len(c.Held), sequences, length)
	if err != nil {
		return nil, nil, err
	}
	inputs, targets = make([]int32, sequences*length), make([]int32, sequences*length)
	for s := range sequences {
		at := s * (starts - 1) / max(1, sequences-1)
		window(inputs[s*length:][:length], targets[s*length:][:length], c.Held[at:])
	}
	return inputs, targets, nil
}

// windows returns the number of possible starts of a window with length inputs.
func (c *Corpus) windows(use string, have, sequences, length int) (int, error) {
	if sequences < 1 || length < 1 {
		return 0, fmt.Errorf("text: batch of %d sequences of %d bytes: want at least 1 of each", sequences, length)
	}
	if have <= length {
		return 0, fmt.Errorf("text: batch of %d sequences of %d bytes: the text has %d bytes to %s, want at least %d; "+
			"shorten the sequences or name more text with %s", sequences, length, have, use, length+1, cmp.Or(c.setting, "-data"))
	}
	return have - length, nil
}

func window(inputs, targets []int32, text []byte) {
	for i := range inputs {
		inputs[i], targets[i] = int32(text[i]), int32(text[i+1])
	}
}

// mix is a step of SplitMix64: a bijection with random-looking outputs. It is implemented here because batches must
// never change, which no library promises. Source: Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
