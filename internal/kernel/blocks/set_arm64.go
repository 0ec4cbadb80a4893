package blocks

import (
	"runtime"

	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/kernel"
)

// setOf returns the functions of k, nil for the portable kernels.
func setOf(k kernel.Kind) *set {
	if k == kernel.NEON {
		return neonSet()
	}
	return nil
}

// neonSet returns functions using FEAT_DotProd if the processor has it: all of Apple's
// that run Go have it, and nearly all others since 2018.
func neonSet() *set {
	if runtime.GOOS == "darwin" || cpu.ARM64.HasASIMDDP {
		return neonDotSet()
	}
	return neonPlainSet()
}

func neonDotSet() *set {
	return &set{
		rows:    [quantTypes]func(*byte){neonDotQ8Rows, neonDotQ4KRows, neonDotQ6KRows, neonDotQ2KRows, neonDotIQ2Rows, neonDotMXRows},
		columns: [quantTypes]func(*byte){neonDotQ8Columns, neonDotQ4KColumns, neonDotQ6KColumns, neonDotQ2KColumns, neonDotIQ2Columns, neonDotMXColumns},
		groups:  neonDotGroupRows,
		super:   neonRoundSuper,
		group:   neonRoundGroup,
	}
}

// neonPlainSet is neonDotSet with int16 products, which every processor has.
func neonPlainSet() *set {
	return &set{
		rows:    [quantTypes]func(*byte){neonQ8Rows, neonQ4KRows, neonQ6KRows, neonQ2KRows, neonIQ2Rows, neonMXRows},
		columns: [quantTypes]func(*byte){neonQ8Columns, neonQ4KColumns, neonQ6KColumns, neonQ2KColumns, neonIQ2Columns, neonMXColumns},
		groups:  neonGroupRows,
		super:   neonRoundSuper,
		group:   neonRoundGroup,
	}
}
