package ep

import "fmt"

// Plan is the routing of a whole batch on one rank: the results of all steps of
// the package. The results of any number of ranks must agree with it.
type Plan struct {
	Layer     Layer
	Tokens, K int

	Routing []int32 // [T,K,2]: expert and queue of each pair, -1 and -1 without a row
	Dropped []bool  // [T,K]: the pair chose an expert that was full

	Demand []int32 // [E]: pairs that chose the expert
	Counts []int32 // [E]: pairs kept, which are the rows in its zone
	Padded []int32 // [E]: rows of the zone, alignment included
	Start  []int32 // [E]: the zone's first row
	Used   int     // Σ Padded

	Row  []int32 // [T,K]: the row of each pair, or -1
	Pair []int32 // [Layer.Rows(T·K)]: the pair t·K+k of each row, -1 in padding
}

// NewPlan routes idx int32[T,k], with experts or -1 as elements, dropping the pairs
// beyond the layer's capacity; call Layer.Fits(plan.Demand) if dropping is not allowed.
// It returns an error for sizes that cannot be routed and an *IndexError for an index out
// of range. It keeps no reference to idx.
func NewPlan(layer Layer, idx []int32, k int) (*Plan, error) {
	if k < 1 || len(idx)%k != 0 {
		return nil, fmt.Errorf("ep: plan: %d indices for %d choices per token, want a multiple of at least 1 choice", len(idx), k)
	}
	p := &Plan{Layer: layer, Tokens: len(idx) / k, K: k}
	if err := layer.Check(p.Tokens, k); err != nil {
		return nil, err
	}
	e := layer.Experts
	table := make([]int32, e)
	if err := Count(table, idx, k); err != nil {
		return nil, err
	}
	p.Demand, p.Counts = make([]int32, e), make([]int32, e)
	Totals(p.Counts, p.Demand, table, layer.Capacity)
	p.Padded, p.Start = make([]int32, e), make([]int32, e)
	Padded(p.Padded, p.Counts, layer.Align)
	p.Used = zones(p.Start, p.Counts, layer.Align)

	p.Routing, p.Dropped = make([]int32, 2*len(idx)), make([]bool, len(idx))
	Assign(p.Routing, p.Dropped, make([]int32, e), idx, layer.Capacity)

	// On one rank the position in the queue is the position in the zone.
	p.Row = make([]int32, len(idx))
	for i := range p.Row {
		p.Row[i] = -1
		if expert := p.Routing[2*i]; expert >= 0 {
			p.Row[i] = p.Start[expert] + p.Routing[2*i+1]
		}
	}
	p.Pair = make([]int32, layer.Rows(len(idx)))
	for r := range p.Pair {
		p.Pair[r] = -1
	}
	for i, r := range p.Row {
		if r >= 0 {
			p.Pair[r] = int32(i)
		}
	}
	return p, nil
}
