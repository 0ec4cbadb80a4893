package kernel

//go:generate go run -C asm . -set attention -out ../asm_attention_amd64.s -stubs ../asm_attention_amd64.go -pkg kernel

// laneSetOf returns the functions of v, which is not scalar, and those that
// transpose.
func laneSetOf(v vectors) (laneSet, *set) {
	if v == avx512 {
		return laneSet{
			width: 16, rows: 8,
			byRow:   [tileVecs]func(*byte){avx512ByRow1, avx512ByRow2, avx512ByRow3},
			byCol:   [tileVecs]func(*byte){avx512ByCol1, avx512ByCol2, avx512ByCol3},
			softmax: avx512SoftmaxBlock, grad: avx512ScoresGrad, mask: avx512ScoresMask,
			divide: avx512DivideSums, scaleRows: avx512ScaleRows, addRow: avx512AddRows,
		}, avx512F32()
	}
	return laneSet{
		width: 8, rows: 4,
		byRow:   [tileVecs]func(*byte){avx2ByRow1, avx2ByRow2, avx2ByRow3},
		byCol:   [tileVecs]func(*byte){avx2ByCol1, avx2ByCol2, avx2ByCol3},
		softmax: avx2SoftmaxBlock, grad: avx2ScoresGrad, mask: avx2ScoresMask,
		divide: avx2DivideSums, scaleRows: avx2ScaleRows, addRow: avx2AddRows,
	}, avx2F32()
}
