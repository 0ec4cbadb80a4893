package primitives

// These primitives move elements and do not calculate with them, so that they support
// the 8-bit floats: see graph.Moves. ConvertElementTypeOp makes and reads 8-bit floats.
// No placement leaves a sum of 8-bit floats pending, as no sum is linear in their codes.

func (BroadcastInDimOp) Moves()     {}
func (ConcatenateOp) Moves()        {}
func (ConvertElementTypeOp) Moves() {}
func (DispatchOp) Moves()           {}
func (DynamicSliceOp) Moves()       {}
func (DynamicUpdateSliceOp) Moves() {}
func (GatherOp) Moves()             {}
func (PadOp) Moves()                {}
func (ReshapeOp) Moves()            {}
func (ReverseOp) Moves()            {}
func (SelectNOp) Moves()            {}
func (ShardingConstraintOp) Moves() {}
func (SliceOp) Moves()              {}
func (StopGradientOp) Moves()       {}
func (TakeAlongAxisOp) Moves()      {}
func (TransposeOp) Moves()          {}
