package attention

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// laneSetOf returns the functions of v, AVX2 or AVX512, and the transposing functions.
func laneSetOf(v kernel.Kind) (laneSet, *pack.Set) {
	if v == kernel.AVX512 {
		return laneSet{
			width: 16, rows: 8,
			byRow:   [groupVecs]func(*byte){avx512ByRow1, avx512ByRow2, avx512ByRow3},
			byCol:   [groupVecs]func(*byte){avx512ByCol1, avx512ByCol2, avx512ByCol3},
			softmax: avx512SoftmaxBlock, grad: avx512ScoresGrad, mask: avx512ScoresMask,
			divide: avx512DivideSums, scaleRows: avx512ScaleRows, addRow: avx512AddRows,
			few: fewSet{
				scores: [4]func(*byte){avx512FewScores1, avx512FewScores2, avx512FewScores4, avx512FewScores8},
				powers: avx512FewPowers,
				values: [3][4]func(*byte){
					{avx512FewValues1x1, avx512FewValues1x2, avx512FewValues1x4, avx512FewValues1x8},
					{avx512FewValues2x1, avx512FewValues2x2, avx512FewValues2x4, avx512FewValues2x8},
					{avx512FewValues4x1, avx512FewValues4x2, avx512FewValues4x4},
				},
				rows: 2, sums: 4,
			},
		}, pack.Of(v, 4)
	}
	return laneSet{
		width: 8, rows: 4,
		byRow:   [groupVecs]func(*byte){avx2ByRow1, avx2ByRow2, avx2ByRow3},
		byCol:   [groupVecs]func(*byte){avx2ByCol1, avx2ByCol2, avx2ByCol3},
		softmax: avx2SoftmaxBlock, grad: avx2ScoresGrad, mask: avx2ScoresMask,
		divide: avx2DivideSums, scaleRows: avx2ScaleRows, addRow: avx2AddRows,
		few: fewSet{
			scores: [4]func(*byte){avx2FewScores1, avx2FewScores2, avx2FewScores4, avx2FewScores8},
			powers: avx2FewPowers,
			values: [3][4]func(*byte){
				{avx2FewValues1x1, avx2FewValues1x2, avx2FewValues1x4, avx2FewValues1x8},
				{avx2FewValues2x1, avx2FewValues2x2, avx2FewValues2x4},
			},
			rows: 1, sums: 3,
		},
	}, pack.Of(v, 4)
}
