// Package exact rewrites a program so that its results have the same bits however a mesh
// splits the batch. Sums over a split dimension become sums of a fixed number of blocks, which
// are added in pairs, whoever has them (see sharding.Blocked), and they are complete before
// anything else is done with them.
//
// Which dimensions these are is found by placing the program on a mesh of two ranks along each
// axis of the batch, whose sizes count as divisible by them, so that the rewritten program does not depend on the mesh
// that it runs on, and a shape that fits that mesh need not fit others.
package exact
