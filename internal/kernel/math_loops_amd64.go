package kernel

func mathOf(v vectors) *mathLoops {
	switch v {
	case avx512:
		return avx512Math()
	case avx2:
		return avx2Math()
	}
	return nil
}

func avx512Math() *mathLoops {
	return &mathLoops{
		unary: [unaries]func(n int, y, x *float32){
			loopNeg:         avx512Neg,
			loopAbs:         avx512Abs,
			loopSign:        avx512Sign,
			loopSquare:      avx512Square,
			loopSqrt:        avx512Sqrt,
			loopFloor:       avx512Floor,
			loopCeil:        avx512Ceil,
			loopRound:       avx512Round,
			loopRoundToEven: avx512RoundToEven,
			loopRsqrt:       avx512Rsqrt,
			loopExpm1:       avx512Expm1,
			loopLog:         avx512Log,
			loopLog1p:       avx512Log1p,
			loopErf:         avx512Erf,
			loopGELU:        avx512GELU,
			loopGELUTanh:    avx512GELUTanh,
		},
		binary: [binaries]func(n int, z, x, y *float32){
			loopAdd:          avx512Add,
			loopSub:          avx512Sub,
			loopMul:          avx512Mul,
			loopDiv:          avx512Div,
			loopMaximum:      avx512Maximum,
			loopMinimum:      avx512Minimum,
			loopGELUGrad:     avx512GELUGrad,
			loopGELUTanhGrad: avx512GELUTanhGrad,
		},
		circle: [2]func(n int, y, x *float32) uint32{avx512Sin, avx512Cos},
		clamp:  avx512Clamp,
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
		},
		circle: [2]func(n int, y, x *float32) uint32{avx2Sin, avx2Cos},
		clamp:  avx2Clamp,
	}
}
