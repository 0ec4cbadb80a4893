// Package half converts in vectors between float32 and the 16-bit formats bf16 (Brain)
// and binary16 (Half), and the 8-bit formats f8_e4m3 and f8_e5m2, and from blocks of
// q8_0. Results, including NaNs, have the same bits as the functions of packages array
// and quant, which are the definition. So results do not depend on the processor's
// instructions, and the instructions cannot be chosen.
//
// The functions convert a prefix of whole vectors and return its length, which is 0
// without vector instructions. The caller converts the rest. Begin with WidenBrain.
package half
