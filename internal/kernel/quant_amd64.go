package kernel

//go:generate go run -C asm . -set quant -out ../asm_quant_amd64.s -stubs ../asm_quant_amd64.go -pkg kernel

func avx2Quant() *quantSet { return nil }

func avx512Quant() *quantSet { return nil }
