package primitives

import "github.com/gomoe/gomoe/graph"

// KeepProducts is a policy of vjp.RematKeep: the gradient keeps the results of products
// with matrices, which take the most time to compute again.
func KeepProducts(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case dotGeneralOp, groupedMatMulOp:
		return true
	}
	return false
}

// KeepExchanges is a policy of vjp.RematKeep: the gradient keeps routings and what
// ep_dispatch and ep_combine bring to experts and home. The backward pass then repeats
// no exchange between ranks of a layer.
func KeepExchanges(e *graph.Eqn) bool {
	switch e.Prim.(type) {
	case PrepareOp, CopiesOp, DispatchOp, CombineOp:
		return true
	}
	return false
}
