// Operands A and B of a product, and its result C.
#include "numbers.metal"

constant int a_as [[function_constant(0)]];       // element types
constant int b_as [[function_constant(1)]];
constant int c_as [[function_constant(2)]];
constant bool a_across [[function_constant(3)]];  // adjacent lines: the stride of lines is 1
constant bool b_across [[function_constant(4)]];
constant bool a_fours [[function_constant(5)]];   // it can be read 4 elements at a time
constant bool b_fours [[function_constant(6)]];
