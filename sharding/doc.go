// Package sharding places programs on meshes of ranks.
//
// A Mesh has named axes. A Spec is the placement of a value on it: the axes splitting
// each dimension, whether its rows are ragged, and the axes over which its sum is still
// pending. Propagate carries the specs of a program's inputs forward through every
// equation, asking each primitive's Rule, and reports conflicts at the user's line.
//
// Begin with ParseMesh, Split and Propagate. No data moves here: package lowering turns
// the decisions into collectives.
package sharding
