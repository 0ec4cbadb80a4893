// Package quant defines the element types that store weights in blocks, byte for byte as in
// GGUF files: which numbers a block stands for, and how to find a block for given numbers.
//
//	type     elements  bytes  an element is
//	q8_0           32     34  d·q, q in -127..127
//	q4_k          256    144  d·s·q - m·t, q in 0..15; s, t in 0..63 for each 32
//	q6_k          256    210  d·s·q, q in -32..31; s in -128..127 for each 16
//	q2_k          256     84  d·s·q - m·t, q in 0..3; s, t in 0..15 for each 16
//	iq2_xxs       256     66  ±d/8·(2s+1)·g, 8 sizes g from a book of 256; s in 0..15 for each 32
//	mxfp4          32     17  2^(e-128)·q, q in 0, ±1, ±2, ±3, ±4, ±6, ±8, ±12
//
// d and m are f16, e is a byte; numbers are little-endian. An array of one of these types has
// rows of whole blocks.
//
// Everything here works on plain slices; array.Convert does the same for arrays.
//
// Begin with Quantize and Dequantize. Products with such blocks are kernels of grouped_matmul
// and dot_general, which do not dequantise the blocks first. GGUF files are not read here.
package quant
