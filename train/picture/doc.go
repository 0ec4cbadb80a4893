// Package picture draws training runs and loads of experts as PNGs. A program that trains gives [Draw] to a train.Figures; one that
// does not links no plotting library.
package picture
