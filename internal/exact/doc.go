// Package exact rewrites a program so that its results have the same bits for every split
// of the batch over a mesh. Sums over a split dimension become sums of a fixed number of
// blocks, which are added in pairs regardless of the ranks holding them (see
// sharding.Blocked). They are complete before anything else uses them.
//
// The package finds these dimensions by placing the program on a mesh of two ranks along
// each axis of the batch. Sizes count as divisible by such axes, so that the rewritten
// program does not depend on the mesh that it runs on, and a shape fitting that mesh need
// not fit others. The package does not place or run the result.
package exact
