package kernel

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// neonQuant returns the products of FEAT_DotProd where the processor has it: all of
// Apple's that Go runs on, and nearly all others since 2018.
func neonQuant() *quantSet {
	if runtime.GOOS == "darwin" || cpu.ARM64.HasASIMDDP {
		return neonDotQuant()
	}
	return neonPlainQuant()
}

func neonDotQuant() *quantSet {
	return &quantSet{
		rows:    [quantTypes]func(*byte){neonDotQ8Rows, neonDotQ4KRows, neonDotQ6KRows, neonDotQ2KRows, neonDotIQ2Rows, neonDotMXRows},
		columns: [quantTypes]func(*byte){neonDotQ8Columns, neonDotQ4KColumns, neonDotQ6KColumns, neonDotQ2KColumns, neonDotIQ2Columns, neonDotMXColumns},
		round:   neonRounds(),
	}
}

// neonPlainQuant is neonDotQuant with products to int16, which every processor has.
func neonPlainQuant() *quantSet {
	return &quantSet{
		rows:    [quantTypes]func(*byte){neonQ8Rows, neonQ4KRows, neonQ6KRows, neonQ2KRows, neonIQ2Rows, neonMXRows},
		columns: [quantTypes]func(*byte){neonQ8Columns, neonQ4KColumns, neonQ6KColumns, neonQ2KColumns, neonIQ2Columns, neonMXColumns},
		round:   neonRounds(),
	}
}

func neonRounds() [quantTypes]func(*byte) {
	return [quantTypes]func(*byte){neonRoundGroup, neonRoundQ4K, neonRoundQ6K, neonRoundQ2K, neonRoundQ6K, neonRoundGroup}
}
