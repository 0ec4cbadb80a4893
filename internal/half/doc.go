// Package half converts in vectors between float32 and the 16-bit formats bf16
// (Brain) and binary16 (Half), and the 8-bit formats f8_e4m3 and f8_e5m2, and from
// blocks of q8_0. Results have the same bits as the functions of packages array and
// quant, which are the definition, also for NaNs. So results do not depend on the
// processor's instructions, and the instructions cannot be chosen.
//
// The functions convert as many numbers, from the first on, as make whole
// vectors, and return how many these are. That is 0 if there are no vector
// instructions. The caller converts the rest.
package half
