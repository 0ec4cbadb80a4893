package norm

import "github.com/gomoe/gomoe/internal/kernel"

func lineLoopsFor(k kernel.Kind) *lineLoops {
	switch k {
	case kernel.AVX512:
		return &lineLoops{
			less: avx512Less, softmaxGrad: avx512SoftmaxGrad, logSoftmaxGrad: avx512LogSoftmaxGrad,
			sigmoids: avx512Sigmoids, rootSoftplus: avx512RootSoftplus, softmaxRows: avx512SoftmaxRows,
		}
	case kernel.AVX2:
		return &lineLoops{
			less: avx2Less, softmaxGrad: avx2SoftmaxGrad, logSoftmaxGrad: avx2LogSoftmaxGrad,
			sigmoids: avx2Sigmoids, rootSoftplus: avx2RootSoftplus, softmaxRows: avx2SoftmaxRows,
		}
	}
	return nil
}
