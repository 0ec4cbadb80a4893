package blocks

import (
	"golang.org/x/sys/cpu"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
)

// setOf returns the functions of k, nil for the portable kernels.
func setOf(k kernel.Kind) *set {
	switch k {
	case kernel.AMX:
		return amxSet()
	case kernel.AVX512:
		return avx512Set()
	case kernel.AVX2:
		return avx2Set()
	}
	return nil
}

// avx2Set converts f16 with F16C, present in every processor with AVX2 and FMA.
func avx2Set() *set {
	return &set{
		rows:    [quantTypes]func(*byte){avx2Q8Rows, avx2Q4KRows, avx2Q6KRows, avx2Q2KRows, avx2IQ2Rows, avx2MXRows},
		columns: [quantTypes]func(*byte){avx2Q8Columns, avx2Q4KColumns, avx2Q6KColumns, avx2Q2KColumns, avx2IQ2Columns, avx2MXColumns},
		groups:  avx2GroupRows,
		affine:  [2]func(*byte){avx2Affine4, avx2Affine8}, affineLanes: 8,
		unpack: avx2Unpack(),
		super:  avx2RoundSuper,
		group:  avx2RoundGroup,

		blockPanels: [quantTypes]*panelSet{
			avx2Panel((32+4)*panelLine, avx2PackQ8, avx2PanelQ82, avx2PanelQ83),
			avx2Panel((64+14)*panelLine, avx2PackQ4K, avx2PanelQ4K2, avx2PanelQ4K3),
			avx2Panel((64+25)*panelLine, avx2PackQ6K, avx2PanelQ6K2, avx2PanelQ6K3),
			avx2Panel((64+10)*panelLine, avx2PackQ2K, avx2PanelQ2K2, avx2PanelQ2K3),
			nil,
			avx2Panel((32+4)*panelLine, avx2PackMX, avx2PanelMX2, avx2PanelMX3),
		},
		blockStrips: [quantTypes]*stripSet{
			{8, [stripMost]func(*byte){nil, avx2StripQ82, avx2StripQ83, avx2StripQ84}},
			{16, [stripMost]func(*byte){nil, avx2StripQ4K2, avx2StripQ4K3, avx2StripQ4K4}},
		},
		groupPanels: avx2GroupPanels(),
	}
}

func avx2Panel(size int, pack, two, three func(*byte)) *panelSet {
	return &panelSet{size: size, rows: 8, pack: pack, least: 5, tile: 3, products: &[panelTile]func(*byte){1: two, 2: three}}
}

// avx2GroupPanels returns the functions of all types. The types with `small` set have
// integers of at most 31.
func avx2GroupPanels() [groupTypes]*panelSet {
	const size = (32 + 8) * panelLine
	small, large := avx2Panel(size, avx2PackGroup, avx2PanelSmall2, avx2PanelSmall3), avx2Panel(size, avx2PackGroup, avx2PanelLarge2, avx2PanelLarge3)
	return [groupTypes]*panelSet{small, small, small, small, large, small, large, large, large}
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
	panel := func(size int, pack func(*byte), products ...func(*byte)) *panelSet {
		p := &panelSet{size: size, rows: 16, pack: pack, least: 4, tile: panelTile, products: &[panelTile]func(*byte){}}
		copy(p.products[panelTile-len(products):], products)
		return p
	}
	var groupPanels [groupTypes]*panelSet
	for i := range groupPanels {
		groupPanels[i] = panel((32+8)*panelLine, avx512PackGroup, avx512PanelOffset3, avx512PanelOffset4, avx512PanelOffset5, avx512PanelOffset6)
	}
	return &set{
		rows:    [quantTypes]func(*byte){avx512Q8Rows, avx512Q4KRows, avx512Q6KRows, avx512Q2KRows, avx2IQ2Rows, avx512MXRows},
		pairs:   [quantTypes]func(*byte){avx512Q8Pairs, avx512Q4KPairs, avx512Q6KPairs, avx512Q2KPairs, nil, avx512MXPairs},
		columns: [quantTypes]func(*byte){avx512Q8Columns, avx512Q4KColumns, avx512Q6KColumns, avx512Q2KColumns, avx2IQ2Columns, avx512MXColumns},
		blockPanels: [quantTypes]*panelSet{
			panel((32+4)*panelLine, avx512PackQ8, avx512PanelBlock3, avx512PanelBlock4, avx512PanelBlock5, avx512PanelBlock6),
			panel((64+14)*panelLine, avx512PackQ4K, avx512PanelQ4K3, avx512PanelQ4K4, avx512PanelQ4K5, avx512PanelQ4K6),
			panel((64+25)*panelLine, avx512PackQ6K, avx512PanelQ6K3, avx512PanelQ6K4, avx512PanelQ6K5, avx512PanelQ6K6),
			panel((64+10)*panelLine, avx512PackQ2K, avx512PanelQ2K3, avx512PanelQ2K4, avx512PanelQ2K5, avx512PanelQ2K6),
			nil,
			panel((32+4)*panelLine, avx512PackMX, avx512PanelBlock3, avx512PanelBlock4, avx512PanelBlock5, avx512PanelBlock6),
		},
		blockStrips: [quantTypes]*stripSet{
			{8, [stripMost]func(*byte){nil, avx512StripQ82, avx512StripQ83, avx512StripQ84, avx512StripQ85, avx512StripQ86, avx512StripQ87, avx512StripQ88}},
			{16, [stripMost]func(*byte){nil, avx512StripQ4K2, avx512StripQ4K3, avx512StripQ4K4, avx512StripQ4K5, avx512StripQ4K6, avx512StripQ4K7, avx512StripQ4K8}},
		},
		groupPanels: groupPanels,
		groups:      avx512GroupRows,
		affine:      [2]func(*byte){avx512Affine4, avx512Affine8}, affineLanes: 16,
		groupPairs:  avx512GroupPairs,
		directRows:  [groupTypes]func(*byte){avx512Q4Rows, avx512Q41Rows, avx512Q5Rows, avx512Q51Rows, nil, avx512Q5KRows, nil, avx512IQ4NLRows, avx512IQ4XSRows},
		directPairs: [groupTypes]func(*byte){avx512Q4Pairs, avx512Q41Pairs, avx512Q5Pairs, avx512Q51Pairs, nil, nil, nil, avx512IQ4NLPairs, nil},
		unpack:      avx2Unpack(),
		super:       avx2RoundSuper,
		group:       avx2RoundGroup,
	}
}

// amxSet is avx512Set with products of many rows in tiles, except for types with offsets
// in groups: these took as long in tiles.
func amxSet() *set {
	s := avx512Set()
	if s.pairs[0] == nil { // without VNNI
		return s
	}
	panel := func(size int, pack, tiles func(*byte)) *panelSet {
		return &panelSet{size: size, rows: 16, pack: pack, tiles: tiles}
	}
	s.blockTiles = [quantTypes]*panelSet{
		panel((32+4)*panelLine, avx512PackTileQ8, amxPanelBlock),
		panel((128+6)*panelLine, avx512PackTileQ4K, amxPanelQ4K),
		panel((128+1)*panelLine, avx512PackTileQ6K, amxPanelQ6K),
		panel((64+10)*panelLine, avx512PackQ2K, amxPanelQ2K),
		nil,
		panel((32+4)*panelLine, avx512PackTileMX, amxPanelBlock),
	}
	groups := panel((32+8)*panelLine, avx512PackTileGroup, amxPanelBlock)
	for _, d := range []graph.DType{graph.Q4_0, graph.Q5_0, graph.Q3_K, graph.IQ3_XXS, graph.IQ4_NL, graph.IQ4_XS} {
		s.groupTiles[groupIndex(d)] = groups
	}
	return s
}
