package blocks

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// affineArgs is the argument of functions in assembly decoding groups. The generator
// knows the offsets of the fields.
type affineArgs struct {
	groups         int // at least 1
	numbers        *float32
	words          *byte
	scales, biases *float32
	each           int // vectors in a group
}

// These lines compile only if the offsets match asm/affine.go.
const (
	_ = -(unsafe.Offsetof(affineArgs{}.numbers) ^ 8)
	_ = -(unsafe.Offsetof(affineArgs{}.words) ^ 16)
	_ = -(unsafe.Offsetof(affineArgs{}.scales) ^ 24)
	_ = -(unsafe.Offsetof(affineArgs{}.biases) ^ 32)
	_ = -(unsafe.Offsetof(affineArgs{}.each) ^ 40)
)

// DecodeAffine sets dst to the numbers of some rows quantised by MLX: number i is its
// integer, of 4 or 8 bits, times scales[i/group], rounded, plus biases[i/group], rounded.
// pitch is the row stride in bytes. A row holds a whole number of groups, one per scale.
// The integers are packed in words of 32 bits of the machine's byte order, the first in
// the lowest bits. group is a multiple of 32.
func DecodeAffine(dst []float32, words []byte, pitch, rows int, scales, biases []float32, bits, group int) {
	selected().decodeAffine(dst, words, pitch, rows, scales, biases, bits, group)
}

func (s *set) decodeAffine(dst []float32, words []byte, pitch, rows int, scales, biases []float32, bits, group int) {
	if bits != 4 && bits != 8 {
		panic(fmt.Sprintf("blocks: integers of %d bits, want 4 or 8", bits))
	}
	groups := len(scales) / max(rows, 1)
	if groups == 0 {
		return
	}
	n := groups * group
	dst, biases, words = dst[:rows*n], biases[:rows*groups], words[:(rows-1)*pitch+n*bits/8] // assembly does not check bounds
	var a *affineArgs
	if s != nil && s.affine[bits/8] != nil {
		a = new(affineArgs)
	}
	for r := range rows {
		if a == nil {
			decodeAffineRow(dst[r*n:][:n], words[r*pitch:], scales[r*groups:][:groups], biases[r*groups:], bits, group)
			continue
		}
		*a = affineArgs{groups, &dst[r*n], &words[r*pitch], &scales[r*groups], &biases[r*groups], group / s.affineLanes}
		s.affine[bits/8]((*byte)(unsafe.Pointer(a)))
	}
}

// decodeAffineRow is DecodeAffine for one row. It is the reference for all kernels.
func decodeAffineRow(dst []float32, words []byte, scales, biases []float32, bits, group int) {
	for g, scale := range scales {
		to, from := dst[g*group:][:group], words[g*group*bits/8:]
		for i := range to {
			q := binary.NativeEndian.Uint32(from[i*bits/32*4:]) >> (i * bits % 32) & (1<<bits - 1)
			to[i] = float32(float32(q)*scale) + biases[g]
		}
	}
}
