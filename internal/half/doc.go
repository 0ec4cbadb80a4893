// Package half converts between float32 and the two 16-bit formats in vectors:
// bf16 (Brain) and binary16 (Half). It has the same bits as the functions of
// package array, which are the definition, NaNs included; so nothing depends on
// which instructions a processor has, and none can be chosen.
//
// Functions convert as many numbers as make whole vectors, from the first on, and
// return how many that are: 0 where there are no vectors. The caller converts the
// others.
package half
