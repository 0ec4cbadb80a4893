// Package quant defines the element types storing weights in blocks, byte for byte as in
// GGUF files. It decodes blocks to numbers and encodes numbers as blocks.
//
//	type     elements  bytes  an element is
//	q8_0           32     34  d·q, q in -127..127
//	q4_k          256    144  d·s·q - m·t, q in 0..15; s, t in 0..63 for each 32
//	q6_k          256    210  d·s·q, q in -32..31; s in -128..127 for each 16
//	q2_k          256     84  d·s·q - m·t, q in 0..3; s, t in 0..15 for each 16
//	iq2_xxs       256     66  ±d/8·(2s+1)·g, 8 sizes g from a book of 256; s in 0..15 for each 32
//	mxfp4          32     17  2^(e-128)·q, q in 0, ±1, ±2, ±3, ±4, ±6, ±8, ±12
//	q4_0           32     18  d·q, q in -8..7
//	q4_1           32     20  d·q + m, q in 0..15
//	q5_0           32     22  d·q, q in -16..15
//	q5_1           32     24  d·q + m, q in 0..31
//	q3_k          256    110  d·s·q, q in -4..3; s in -32..31 for each 16
//	q5_k          256    176  d·s·q - m·t, q in 0..31; s, t in 0..63 for each 32
//	iq3_xxs       256     98  ±d/4·(2s+1)·g, 4 sizes g from a book of 256; s in 0..15 for each 32
//	iq4_nl         32     18  d·v, v one of 16 values in -127..113
//	iq4_xs        256    136  d·s·v, v as in iq4_nl; s in -32..31 for each 32
//
// d and m are f16, e is a byte; numbers are little-endian. An array of one of these types
// has rows of whole blocks.
//
// The package works on plain slices; array.Convert does the same for arrays.
//
// Begin with Quantize and Dequantize. Products with such blocks are kernels of
// grouped_matmul and dot_general, which do not dequantise the blocks first. Package
// checkpoint reads GGUF files.
package quant
