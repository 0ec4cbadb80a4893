package blocks

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/internal/kernel"
)

// setOf returns the functions of k, nil for the portable kernels.
func setOf(k kernel.Kind) *set {
	switch k.Vectors() {
	case kernel.AVX512:
		return avx512Set()
	case kernel.AVX2:
		return avx2Set()
	}
	return nil
}

// avx2Set converts f16 with F16C, which every processor has that has AVX2 and FMA.
func avx2Set() *set {
	return &set{
		rows:    [quantTypes]func(*byte){avx2Q8Rows, avx2Q4KRows, avx2Q6KRows, avx2Q2KRows, avx2IQ2Rows, avx2MXRows},
		columns: [quantTypes]func(*byte){avx2Q8Columns, avx2Q4KColumns, avx2Q6KColumns, avx2Q2KColumns, avx2IQ2Columns, avx2MXColumns},
		groups:  avx2GroupRows,
		unpack:  avx2Unpack(),
		super:   avx2RoundSuper,
		group:   avx2RoundGroup,
	}
}

func avx2Unpack() [groupTypes]func(*byte) {
	return [groupTypes]func(*byte){avx2UnpackQ4, avx2UnpackQ41, avx2UnpackQ5, avx2UnpackQ51, avx2UnpackQ3K, avx2UnpackQ5K, avx2UnpackIQ3, avx2UnpackIQ4NL, avx2UnpackIQ4XS}
}

// avx512Set returns avx2Set on processors with AVX-512 but without VNNI; the bits are
// the same. For iq2_xxs it uses the functions of AVX2.
func avx512Set() *set {
	if !cpu.X86.HasAVX512VNNI || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL {
		return avx2Set()
	}
	blockPanels := [panelTile - 2]func(*byte){avx512PanelBlock3, avx512PanelBlock4, avx512PanelBlock5, avx512PanelBlock6}
	return &set{
		rows:    [quantTypes]func(*byte){avx512Q8Rows, avx512Q4KRows, avx512Q6KRows, avx512Q2KRows, avx2IQ2Rows, avx512MXRows},
		pairs:   [quantTypes]func(*byte){avx512Q8Pairs, avx512Q4KPairs, avx512Q6KPairs, avx512Q2KPairs, nil, avx512MXPairs},
		columns: [quantTypes]func(*byte){avx512Q8Columns, avx512Q4KColumns, avx512Q6KColumns, avx512Q2KColumns, avx2IQ2Columns, avx512MXColumns},
		blockPanels: [quantTypes]*panelSet{
			{(32 + 4) * panelLine, avx512PackQ8, &blockPanels},
			{(64 + 14) * panelLine, avx512PackQ4K, &[panelTile - 2]func(*byte){avx512PanelQ4K3, avx512PanelQ4K4, avx512PanelQ4K5, avx512PanelQ4K6}},
			{(64 + 25) * panelLine, avx512PackQ6K, &[panelTile - 2]func(*byte){avx512PanelQ6K3, avx512PanelQ6K4, avx512PanelQ6K5, avx512PanelQ6K6}},
			{(64 + 10) * panelLine, avx512PackQ2K, &[panelTile - 2]func(*byte){avx512PanelQ2K3, avx512PanelQ2K4, avx512PanelQ2K5, avx512PanelQ2K6}},
			nil,
			{(32 + 4) * panelLine, avx512PackMX, &blockPanels},
		},
		groupPanels: &panelSet{(32 + 8) * panelLine, avx512PackGroup, &[panelTile - 2]func(*byte){avx512PanelOffset3, avx512PanelOffset4, avx512PanelOffset5, avx512PanelOffset6}},
		groups:      avx512GroupRows,
		groupPairs:  avx512GroupPairs,
		unpack:      avx2Unpack(),
		super:       avx2RoundSuper,
		group:       avx2RoundGroup,
	}
}
