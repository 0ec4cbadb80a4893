package vector

import "github.com/gomoe/gomoe/internal/kernel"

func mathOf(v kernel.Kind) *mathLoops {
	if v != kernel.NEON {
		return nil
	}
	return neonMath()
}

// neonMath returns the loops of NEON. It has none for functions needing polynomials in
// float64: Expm1, Log, Log1p, Pow, Erf, Sin, Cos, GELU, GELUTanh and the derivatives of
// the last two. These are computed in Go on arm64.
func neonMath() *mathLoops {
	return &mathLoops{
		unary: [unaries]func(n int, y, x *float32){
			loopNeg:         neonNeg,
			loopAbs:         neonAbs,
			loopSign:        neonSign,
			loopSquare:      neonSquare,
			loopSqrt:        neonSqrt,
			loopFloor:       neonFloor,
			loopCeil:        neonCeil,
			loopRound:       neonRound,
			loopRoundToEven: neonRoundToEven,
			loopRsqrt:       neonRsqrt,
			loopFromInt:     neonFromInt,
			loopToInt:       neonToInt,
			loopOrder:       neonOrder,
		},
		binary: [binaries]func(n int, z, x, y *float32){
			loopAdd:     neonAdd,
			loopSub:     neonSub,
			loopMul:     neonMul,
			loopDiv:     neonDiv,
			loopMaximum: neonMaximum,
			loopMinimum: neonMinimum,
		},
		clamp:    neonClamp,
		products: neonAddProduct,
		sum:      neonSum,
		dot:      neonDot,
		sumRows:  neonSumRows,
		sumTree:  neonSumTree,
		largest:  neonLargest,
		smallest: neonSmallest,
		selects:  neonSelect,
		compares: [comparisons]func(n int, z *byte, x, y *float32){neonIsEqual, neonIsUnequal, neonIsLess, neonIsAtMost, neonIsGreater, neonIsAtLeast},
	}
}
