// Package picture draws training runs and loads of experts as PNGs. It does not write files and reads no metrics: package train gives
// [Draw] the steps of a run and writes the picture, and package report has the rows. Begin with Draw, which a train.Figures is given. A
// program that gives none links no plotting library.
package picture
