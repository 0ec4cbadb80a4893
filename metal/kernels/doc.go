// Package kernels has gomoe's Metal kernels: their sources, and how each instruction
// of a plan is done with them.
//
// There is one concept per pair of files: rope.metal has the kernels, rope.go says
// which instructions they serve and how they are launched. Nothing here talks to a
// device: Build turns an instruction into a Program, which is data, and a driver, or a
// test, launches it.
//
// Elementwise instructions, and chains of them, have functions that are made for each:
// flat.go writes them, of the expressions in expression_table.go, which call what
// functions.metal and adamw.metal have.
//
// Every kernel obeys these rules, which Metal and the emulated GPU that tests run
// on share:
//
//   - it returns early only where all threads of a threadgroup do, and before any barrier;
//   - it writes every element of its results, whose memory holds anything before: of
//     ragged results all rows of experts' zones, those between the rows in use and the
//     end of a zone with zeros. Rows past the last zone are not written, nor places on a
//     wire past the last row that travels, nor where rows go that do not;
//   - it reads no rows past the last zone, and no rows of a zone past those in use
//     for more than to write zeros: they may hold NaNs;
//   - what it writes depends on nothing but its arguments: sums are added in an order
//     that the number of threads, and of rows beside a row, does not change;
//   - parameters are one struct of 4-byte fields; vectors are not initialised with
//     braces, and structs in device memory are copied field by field.
package kernels
