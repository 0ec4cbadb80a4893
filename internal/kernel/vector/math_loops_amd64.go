package vector

import "github.com/gomoe/gomoe/internal/kernel"

func mathOf(v kernel.Kind) *mathLoops {
	switch v {
	case kernel.AVX512:
		return avx512Math()
	case kernel.AVX2:
		return avx2Math()
	}
	return nil
}

func avx512Math() *mathLoops {
	return &mathLoops{
		unary: [unaries]func(n int, y, x *float32){
			loopNeg:         avx512Neg,
			loopAbs:         avx512Abs,
			loopSign:        avx2Sign,
			loopSquare:      avx512Square,
			loopSqrt:        avx512Sqrt,
			loopFloor:       avx2Floor,
			loopCeil:        avx2Ceil,
			loopRound:       avx2Round,
			loopRoundToEven: avx2RoundToEven,
			loopRsqrt:       avx512Rsqrt,
			loopExpm1:       avx2Expm1,
			loopLog:         avx512Log,
			loopLog1p:       avx2Log1p,
			loopErf:         avx2Erf,
			loopGELU:        avx512GELU,
			loopGELUTanh:    avx512GELUTanh,
			loopFromInt:     avx512FromInt,
			loopToInt:       avx512ToInt,
			loopOrder:       avx512Order,
		},
		binary: [binaries]func(n int, z, x, y *float32){
			loopAdd:          avx512Add,
			loopSub:          avx512Sub,
			loopMul:          avx512Mul,
			loopDiv:          avx512Div,
			loopMaximum:      avx512Maximum,
			loopMinimum:      avx2Minimum,
			loopGELUGrad:     avx512GELUGrad,
			loopGELUTanhGrad: avx512GELUTanhGrad,
			loopPow:          avx2Pow,
		},
		circle:   [2]func(n int, y, x *float32) uint32{avx2Sin, avx2Cos},
		clamp:    avx2Clamp,
		products: avx512AddProduct,
		sum:      avx512Sum,
		dot:      avx512Dot,
		sumRows:  avx512SumRows,
		sumTree:  avx512SumTree,
		largest:  avx512Largest,
		smallest: avx512Smallest,
		selects:  avx512Select,
		compares: [comparisons]func(n int, z *byte, x, y *float32){avx512IsEqual, avx512IsUnequal, avx512IsLess, avx512IsAtMost, avx512IsGreater, avx512IsAtLeast},
	}
}

func avx2Math() *mathLoops {
	return &mathLoops{
		unary: [unaries]func(n int, y, x *float32){
			loopNeg:         avx2Neg,
			loopAbs:         avx2Abs,
			loopSign:        avx2Sign,
			loopSquare:      avx2Square,
			loopSqrt:        avx2Sqrt,
			loopFloor:       avx2Floor,
			loopCeil:        avx2Ceil,
			loopRound:       avx2Round,
			loopRoundToEven: avx2RoundToEven,
			loopRsqrt:       avx2Rsqrt,
			loopExpm1:       avx2Expm1,
			loopLog:         avx2Log,
			loopLog1p:       avx2Log1p,
			loopErf:         avx2Erf,
			loopGELU:        avx2GELU,
			loopGELUTanh:    avx2GELUTanh,
			loopFromInt:     avx2FromInt,
			loopToInt:       avx2ToInt,
			loopOrder:       avx2Order,
		},
		binary: [binaries]func(n int, z, x, y *float32){
			loopAdd:          avx2Add,
			loopSub:          avx2Sub,
			loopMul:          avx2Mul,
			loopDiv:          avx2Div,
			loopMaximum:      avx2Maximum,
			loopMinimum:      avx2Minimum,
			loopGELUGrad:     avx2GELUGrad,
			loopGELUTanhGrad: avx2GELUTanhGrad,
			loopPow:          avx2Pow,
		},
		circle:   [2]func(n int, y, x *float32) uint32{avx2Sin, avx2Cos},
		clamp:    avx2Clamp,
		products: avx2AddProduct,
		sum:      avx2Sum,
		dot:      avx2Dot,
		sumRows:  avx2SumRows,
		sumTree:  avx2SumTree,
		largest:  avx2Largest,
		smallest: avx2Smallest,
		selects:  avx2Select,
		compares: [comparisons]func(n int, z *byte, x, y *float32){avx2IsEqual, avx2IsUnequal, avx2IsLess, avx2IsAtMost, avx2IsGreater, avx2IsAtLeast},
	}
}
