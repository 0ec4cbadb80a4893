package rdmatest

import "math/rand/v2"

// Pattern returns n bytes for rank from to send to rank to in an exchange. The bytes differ
// for every pair of ranks and every round.
func Pattern(n, from, to, round int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(from*100+to), uint64(round)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Length returns the number of bytes that one rank sends to another in an exchange. The
// lengths are of all sizes, some at the borders of classes, and differ between the two
// directions.
func Length(from, to, round int) int {
	lengths := []int{0, 1, 100, 4095, 4096, 4097, 5000, 8191, 8192, 12288, 65536, 70001, 524287, 524288, 1<<20 + 5, 2000003}
	return lengths[(from*5+to*3+round*7)%len(lengths)]
}
