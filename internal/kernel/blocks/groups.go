package blocks

import (
	"encoding/binary"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// groupProduct is a product of rounded rows and weights unpacked to groups, a piece of
// four rows at a time. A piece stays in the first-level cache while up to quantMost rows
// of x are multiplied by it.
type groupProduct struct {
	set      *set
	m, n, k  int
	x        []byte // m rounded rows
	xb       int    // bytes of a row
	y        []float32
	yrs, ycs int
}

// groupPiece is the number of groups of a row of weights unpacked at a time. Four rows of
// them take 12 KiB.
const groupPiece = 16

// groupOffset is quantOffset for types with groups.
const groupOffset = 128

// unpackArgs is the argument of functions in assembly unpacking blocks to groups: n whole
// groups of blocks of 32, or n blocks of 256. The generator knows the offsets of the
// fields.
type unpackArgs struct {
	n      int
	groups *quant.Group
	blocks *byte
	book   *[256]uint32 // of iq3_xxs
}

// These lines compile only if the offsets match asm/unpack.go, and if a group has the
// layout of a rounded row.
const (
	_ = -(unsafe.Offsetof(unpackArgs{}.groups) ^ 8)
	_ = -(unsafe.Offsetof(unpackArgs{}.blocks) ^ 16)
	_ = -(unsafe.Offsetof(unpackArgs{}.book) ^ 24)
	_ = -(unsafe.Offsetof(quant.Group{}.Scale) ^ quantGroupScale)
	_ = -(unsafe.Offsetof(quant.Group{}.Offset) ^ quantGroupSums)
	_ = -(unsafe.Sizeof(quant.Group{}) ^ quantGroupRow)
)

// unpackGroups is quant.Unpack with the functions of a set. a is memory for an argument.
func (s *set) unpackGroups(a *unpackArgs, groups []quant.Group, d graph.DType, blocks []byte) {
	if s == nil || s.unpack[groupIndex(d)] == nil {
		quant.Unpack(groups, d, blocks)
		return
	}
	n, size := d.Block()
	unit := size // bytes of the blocks that the function handles together
	if n == 32 {
		unit *= 4
	}
	count := len(blocks) / unit
	if count > 0 {
		*a = unpackArgs{count, &groups[0], &blocks[0], quant.IQ3Grid()}
		s.unpack[groupIndex(d)]((*byte)(unsafe.Pointer(a)))
	}
	if rest := blocks[count*unit:]; len(rest) > 0 {
		quant.Unpack(groups[count:], d, rest)
	}
}

// groupWork is the memory for a product of groups.
type groupWork struct {
	groups [4 * groupPiece]quant.Group
	sums   [quantMost][4]float32 // of each row of x and four rows of weights
	args   quantArgs
	unpack unpackArgs
}

// multiply makes the product. unpack sets groups to the elements [from, to) of row j of the
// weights; from is a multiple of the elements of groupPiece groups.
func (p *groupProduct) multiply(unpack func(a *unpackArgs, groups []quant.Group, j, from, to int)) {
	const piece = 128 * groupPiece
	work := new(groupWork)
	for i0 := 0; i0 < p.m; i0 += quantMost {
		i1 := min(i0+quantMost, p.m)
		for j := 0; j < p.n; j += 4 {
			rows := min(4, p.n-j)
			work.sums = [quantMost][4]float32{}
			for from := 0; from < p.k; from += piece {
				to := min(from+piece, p.k)
				groups := (to - from + 127) / 128
				for l := range rows {
					unpack(&work.unpack, work.groups[l*groupPiece:][:groups], j+l, from, to)
				}
				p.add(work, rows, groups, i0, i1, from/128)
			}
			for i := i0; i < i1; i++ {
				for l, sum := range work.sums[i-i0][:rows] {
					p.y[i*p.yrs+(j+l)*p.ycs] = sum
				}
			}
		}
	}
}

// add adds the products of groups of some rows of weights and the rows i0 to i1-1 of x,
// starting at group `from` of these.
func (p *groupProduct) add(work *groupWork, rows, groups, i0, i1, from int) {
	at := func(i int) []byte { return p.x[i*p.xb+from*quantGroupRow:] }
	if p.set == nil || p.set.groups == nil {
		for i := i0; i < i1; i++ {
			for l := range rows {
				sum := &work.sums[i-i0][l]
				*sum = groupsDot(*sum, at(i), work.groups[l*groupPiece:][:groups])
			}
		}
		return
	}
	a := &work.args
	a.n = groups
	for l := range a.w { // repeat the last row if there are fewer than four
		a.w[l] = (*byte)(unsafe.Pointer(&work.groups[min(l, rows-1)*groupPiece]))
	}
	for i := i0; i < i1; {
		a.x[0] = &at(i)[0]
		copy(a.out[:], work.sums[i-i0][:])
		if i+1 == i1 || p.set.groupPairs == nil {
			p.set.groups((*byte)(unsafe.Pointer(a)))
			copy(work.sums[i-i0][:], a.out[:])
			i++
			continue
		}
		a.x[1] = &at(i + 1)[0]
		copy(a.out[4:], work.sums[i+1-i0][:])
		p.set.groupPairs((*byte)(unsafe.Pointer(a)))
		copy(work.sums[i-i0][:], a.out[:])
		copy(work.sums[i+1-i0][:], a.out[4:])
		i += 2
	}
}

// groupsDot returns sum plus the product of groups of a rounded row and of weights. It is
// the reference for all kernels.
func groupsDot(sum float32, x []byte, w []quant.Group) float32 {
	for i := range w {
		x, w := x[i*quantGroupRow:][:quantGroupRow], &w[i]
		for b := range 4 {
			dx, s := float(x[quantGroupScale+4*b:]), int32(0)
			q, v := x[32*b:][:32], w.Q[32*b:][:32]
			for k := range q {
				s += int32(int8(q[k])) * int32(int8(v[k]))
			}
			t := int32(binary.LittleEndian.Uint32(x[quantGroupSums+4*b:])) / groupOffset
			scaled := float32(float32(w.Scale[b]*dx) * float32(s))
			sum += scaled + float32(float32(w.Offset[b]*dx)*float32(t))
		}
	}
	return sum
}
