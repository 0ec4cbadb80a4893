// Package sharding places programs on meshes of ranks.
//
// A Mesh has named axes. A Spec says how a value lies on it: which axes split
// each dimension, whether its rows are ragged, and over which axes its sum is
// still pending. Propagate carries the specs of a program's inputs forward
// through every equation, asking each primitive's Rule, and reports what does
// not fit at the user's line.
//
// Begin with ParseMesh, Split and Propagate. No data moves here: package lowering turns
// the decisions into collectives.
package sharding
