package primitives

// These primitives move elements and do not calculate with them, so that they support
// the 8-bit floats: see graph.Moves. convertElementTypeOp makes and reads 8-bit floats.
// No placement leaves a sum of 8-bit floats pending, as no sum is linear in their codes.

func (broadcastInDimOp) Moves()     {}
func (concatenateOp) Moves()        {}
func (convertElementTypeOp) Moves() {}
func (DispatchOp) Moves()           {}
func (dynamicSliceOp) Moves()       {}
func (dynamicUpdateSliceOp) Moves() {}
func (gatherOp) Moves()             {}
func (padOp) Moves()                {}
func (reshapeOp) Moves()            {}
func (reverseOp) Moves()            {}
func (selectNOp) Moves()            {}
func (shardingConstraintOp) Moves() {}
func (sliceOp) Moves()              {}
func (stopGradientOp) Moves()       {}
func (takeAlongAxisOp) Moves()      {}
func (transposeOp) Moves()          {}
