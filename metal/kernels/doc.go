// Package kernels has gomoe's Metal kernels: their sources, and their launches for each instruction
// of a plan.
//
// There is one pair of files per concept: rope.metal has the kernels, rope.go selects the
// instructions they serve and launches them. Nothing here talks to a device: Build turns an
// instruction into a Program, which is data, and a driver or a test launches it. Begin with Build.
//
// For each elementwise instruction, or chain of them, flat.go generates a function of its own,
// composed of the expressions in expression_table.go, which call the functions in functions.metal
// and adamw.metal.
//
// Every kernel obeys these rules, on Metal and on the emulated GPU used by tests:
//
//   - it returns early only if all threads of a threadgroup do, and only before any barrier;
//   - it writes every element of its results, whose contents are undefined before. In ragged
//     results it writes all rows of experts' zones, with zeros between the rows in use and the
//     end of a zone. It does not write rows past the last zone, nor places on a wire past
//     the last row that travels, nor the destinations of rows that do not travel;
//   - it reads no rows past the last zone, and rows of a zone past its rows in use only in order
//     to write zeros: such rows may hold NaNs;
//   - its results depend only on its arguments: sums are added in an order depending neither on
//     the number of threads nor on the number of other rows;
//   - parameters are one struct of 4-byte fields; vectors are not initialized with braces, and
//     structs in device memory are copied field by field.
package kernels
