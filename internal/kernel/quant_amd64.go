package kernel

import "golang.org/x/sys/cpu"

//go:generate go run -C asm . -set quant -out ../asm_quant_amd64.s -stubs ../asm_quant_amd64.go -pkg kernel

// avx2Quant converts f16 with F16C, which every processor has that has AVX2 and FMA.
func avx2Quant() *quantSet {
	return &quantSet{
		rows:    [quantTypes]func(*byte){avx2Q8Rows, avx2Q4KRows, avx2Q6KRows, avx2Q2KRows, avx2IQ2Rows, avx2MXRows},
		columns: [quantTypes]func(*byte){avx2Q8Columns, avx2Q4KColumns, avx2Q6KColumns, avx2Q2KColumns, avx2IQ2Columns, avx2MXColumns},
		round:   rounds(),
	}
}

// avx512Quant is avx2Quant on processors with AVX-512 but without VNNI; the bits are
// the same. The book of iq2_xxs is looked up in halves of vectors.
func avx512Quant() *quantSet {
	if !cpu.X86.HasAVX512VNNI || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL {
		return avx2Quant()
	}
	return &quantSet{
		rows:    [quantTypes]func(*byte){avx512Q8Rows, avx512Q4KRows, avx512Q6KRows, avx512Q2KRows, avx2IQ2Rows, avx512MXRows},
		pairs:   [quantTypes]func(*byte){avx512Q8Pairs, avx512Q4KPairs, avx512Q6KPairs, avx512Q2KPairs, nil, avx512MXPairs},
		columns: [quantTypes]func(*byte){avx512Q8Columns, avx512Q4KColumns, avx512Q6KColumns, avx512Q2KColumns, avx2IQ2Columns, avx512MXColumns},
		round:   rounds(),
	}
}

func rounds() [quantTypes]func(*byte) {
	return [quantTypes]func(*byte){avx2RoundGroup, avx2RoundQ4K, avx2RoundQ6K, avx2RoundQ2K, avx2RoundQ6K, avx2RoundGroup}
}
