package data

import "math/bits"

// shuffled permutes 0 to n-1 and returns the image of i. seed and round select the permutation, which needs no
// memory: it is a Feistel network on the smallest even number of bits that holds n, iterated until the result is
// below n.
func shuffled(i, n, seed, round uint64) uint64 {
	half := uint(bits.Len64(max(n, 2)-1)+1) / 2
	mask := uint64(1)<<half - 1
	key := mix(seed ^ mix(round+1))
	for {
		left, right := i>>half, i&mask
		for r := range uint64(6) {
			left, right = right, left^mix(key+mix(right<<3|r))&mask
		}
		if i = left<<half | right; i < n {
			return i
		}
	}
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
