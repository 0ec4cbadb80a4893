// Package picture draws training runs and loads of experts as PNGs. It neither writes files nor reads metrics:
// package train passes the steps of a run to [Draw] and writes the picture, and package report holds the rows.
// Begin with Draw, a value for train.Figures. A program without it links no plotting library.
package picture
