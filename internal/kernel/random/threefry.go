package random

import (
	"math/bits"
	"unsafe"
)

// Threefry2x32 returns the counter x encrypted under the key, in 20 rounds. Source: Salmon,
// Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
func Threefry2x32(key, x [2]uint32) [2]uint32 {
	k := [3]uint32{key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bda}
	a, b := x[0]+k[0], x[1]+k[1]
	for i := uint32(0); i < 5; i++ {
		if i%2 == 0 {
			a += b
			b = bits.RotateLeft32(b, 13) ^ a
			a += b
			b = bits.RotateLeft32(b, 15) ^ a
			a += b
			b = bits.RotateLeft32(b, 26) ^ a
			a += b
			b = bits.RotateLeft32(b, 6) ^ a
		} else {
			a += b
			b = bits.RotateLeft32(b, 17) ^ a
			a += b
			b = bits.RotateLeft32(b, 29) ^ a
			a += b
			b = bits.RotateLeft32(b, 16) ^ a
			a += b
			b = bits.RotateLeft32(b, 24) ^ a
		}
		a += k[(i+1)%3]
		b += k[(i+2)%3] + i + 1
	}
	return [2]uint32{a, b}
}

// Seed returns the key of a seed, jax.random.key(seed). JAX without 64-bit types
// cuts the seed to 32 bits first.
func Seed(seed uint64) [2]uint32 { return [2]uint32{uint32(seed >> 32), uint32(seed)} }

// FoldIn returns a new key made of key and data, jax.random.fold_in(key, data).
func FoldIn(key [2]uint32, data uint32) [2]uint32 {
	return Threefry2x32(key, [2]uint32{0, data})
}

// Bits32 fills dst with the elements offset, offset+1, … of the flat array of random bits
// that belongs to key. An element depends on the key and its index alone. So a shard of
// an array can be filled without the rest of the array, independent of the shape. These
// are the bits of jax.random.bits with jax_threefry_partitionable set, JAX's default.
func Bits32(dst []uint32, key [2]uint32, offset uint64) { bits32(selected(), dst, key, offset) }

func bits32(l *loops, dst []uint32, key [2]uint32, offset uint64) {
	if l == nil || l.threefry == nil {
		for i := range dst {
			x := Threefry2x32(key, Seed(offset+uint64(i)))
			dst[i] = x[0] ^ x[1]
		}
		return
	}
	for len(dst) > 0 {
		c := Seed(offset)
		n := int(min(uint64(len(dst)), 1<<32-uint64(c[1]))) // until the lower word overflows
		l.threefry(n, (*float32)(unsafe.Pointer(unsafe.SliceData(dst))), key[0], key[1], c[0], c[1])
		dst, offset = dst[n:], offset+uint64(n)
	}
}

// Bits8 is Bits32 for bytes: the lowest byte of each element of Bits32.
func Bits8(dst []uint8, key [2]uint32, offset uint64) {
	inWords(len(dst), key, offset, func(i int, x uint32) { dst[i] = uint8(x) })
}

// inWords calls f with the random bits of elements 0 to n-1 from offset on.
func inWords(n int, key [2]uint32, offset uint64, f func(i int, x uint32)) {
	room := make([]uint32, min(n, 1024))
	for at := 0; at < n; at += len(room) {
		words := room[:min(n-at, len(room))]
		Bits32(words, key, offset+uint64(at))
		for i, x := range words {
			f(at+i, x)
		}
	}
}
