// Package ops declares the operations of instructions: the kernels, exchanges and loops of a plan.
//
// Passes, joins and devices compare operations as constants. Names of operations are printed and never
// read back, so renaming one changes no plan but its text.
package ops

// Op is an operation, with its variants: GroupedMatMul | Blocks is the product with weights in blocks.
type Op uint32

// Variants of operations, in the order in which they are printed.
const (
	Blocks      Op = kinds << iota // weights are in blocks of a quantised format
	Parts                          // operands are sums of parts with fewer bits
	Tree                           // the sum is a tree that does not depend on the mesh
	Weighted                       // rows are multiplied by their weights
	OnlyWeights                    // weights are moved, and no rows
	Wire                           // rows travel in a type of their own
)

// kinds is more than there are operations without their variants.
const kinds = 1 << 16

// Operations. None is the zero value.
const (
	None Op = iota

	// The engine's own: constants, sums, moves between placements, joined exchanges.
	Full
	AddAny
	Copy
	PendingPart
	ShardPart
	PartMajor
	PartMinor
	PartPadded
	PartUnpadded
	PartsPadded
	PartsJoined
	PartsApart
	PartsTogether
	NarrowSummand
	WidenSum
	JoinParts
	SeparateParts
	Keep

	// Exchanges between ranks.
	AllSum
	ReduceScatter
	AllGather
	AllToAll

	// Instructions that consist of others: a chain of elementwise ones, and a loop.
	Fused
	Scan

	// Elementwise functions of one argument; Neg is the first and Erf the last.
	Neg
	Abs
	Sign
	Square
	Floor
	Ceil
	Exp
	Expm1
	Log
	Log1p
	Sqrt
	Rsqrt
	Sin
	Cos
	Tanh
	Logistic
	Erf

	// Elementwise functions of two arguments; Add is the first and Min the last.
	Add
	Sub
	Mul
	Div
	Rem
	Pow
	Max
	Min

	// Comparisons; Eq is the first and Ge the last.
	Eq
	Ne
	Lt
	Le
	Gt
	Ge

	// Logical functions; Not is the first and Xor the last.
	Not
	And
	Or
	Xor

	// Other elementwise functions.
	SelectN
	Clamp
	ConvertElementType
	Round
	StochasticRound
	IsFinite
	SiLU
	SiLUGrad
	SwiGLU
	SwiGLUGrad
	GELU
	GELUGrad
	AdamW

	// Layout, and elements at indices.
	BroadcastInDim
	Transpose
	Slice
	Rev
	Concatenate
	Pad
	Iota
	RowsTogether
	RowsApart
	DynamicSlice
	DynamicUpdateSlice
	CacheUpdate
	Embedding
	EmbeddingPart
	EmbeddingGrad
	Gather
	TakeAlongAxis
	AddAlongAxis
	ScatterAdd
	OneHot

	// Reductions, sorting, and sums in trees.
	ReduceSum
	ReduceProd
	ReduceMax
	ReduceMin
	CumSum
	ArgMax
	ArgMin
	Sort
	TopK
	SegmentsApart
	SubtreesAdded

	// Random numbers.
	RandomSeed
	RandomSplit
	RandomFoldIn
	RandomBits
	RandomUniform
	RandomNormal

	// Rows: norms, softmax, losses, positions, attention.
	RMSNorm
	RMSNormGrad
	RMSNormGainGrad
	LayerNorm
	LayerNormGrad
	LayerNormGainGrad
	Softmax
	SoftmaxGrad
	LogSoftmax
	LogSoftmaxGrad
	LogSumExp
	CrossEntropy
	CrossEntropyGrad
	Rope
	RopeAngles
	Attention
	AttentionGrad
	Recurrence
	RecurrenceGrad
	CausalConvolution
	CausalConvolutionGrad

	// Matrix products, and what joins make of them.
	DotGeneral
	ScaledMatMul
	AffineMatMul
	GroupedMatMul
	GroupedScaledMatMul
	GroupedAffineMatMul
	GroupedOuter
	GroupedMatMulSum
	GroupedSwiGLU
	GroupedSwiGLUGrad
	RowDots
	Dequantize

	// Routing of tokens to experts and back.
	Router
	EPArrived
	EPBlockRows
	EPChoices
	EPCopies
	EPCopyChoices
	EPCount
	EPFromSegments
	EPJourney
	EPKeep
	EPOrder
	EPPack
	EPPackInline
	EPPackRows
	EPPackSums
	EPPadded
	EPPass
	EPPassage
	EPPlace
	EPPrepare
	EPPrepareAlone
	EPPrepareRows
	EPReceive
	EPRecvOrder
	EPSendOrder
	EPSlots
	EPSpread
	EPSum
	EPSumMachine
	EPSumMachines
	EPSumRanks
	EPTable
	EPZones

	count
)

// All returns all operations, without variants.
func All() []Op {
	all := make([]Op, count-1)
	for i := range all {
		all[i] = Op(i + 1)
	}
	return all
}

// Plain returns the operation without its variants.
func (o Op) Plain() Op { return o % kinds }

// Has reports whether the operation has one of the variants v.
func (o Op) Has(v Op) bool { return o&v != 0 }

// String returns the name of the operation in plans and reports.
func (o Op) String() string {
	name := [count]string{
		Full: "full", AddAny: "add_any", Copy: "copy", PendingPart: "pending_part", ShardPart: "shard_part", PartMajor: "part_major",
		PartMinor: "part_minor", PartPadded: "part_padded", PartUnpadded: "part_unpadded", PartsPadded: "parts_padded", PartsJoined: "parts_joined",
		PartsApart: "parts_apart", PartsTogether: "parts_together", NarrowSummand: "narrow_summand", WidenSum: "widen_sum", JoinParts: "join_parts",
		SeparateParts: "separate_parts", Keep: "keep",
		AllSum: "all_sum", ReduceScatter: "reduce_scatter", AllGather: "all_gather", AllToAll: "all_to_all",
		Fused: "fused", Scan: "scan",
		Neg: "neg", Abs: "abs", Sign: "sign", Square: "square", Floor: "floor", Ceil: "ceil", Exp: "exp", Expm1: "expm1", Log: "log", Log1p: "log1p",
		Sqrt: "sqrt", Rsqrt: "rsqrt", Sin: "sin", Cos: "cos", Tanh: "tanh", Logistic: "logistic", Erf: "erf",
		Add: "add", Sub: "sub", Mul: "mul", Div: "div", Rem: "rem", Pow: "pow", Max: "max", Min: "min",
		Eq: "eq", Ne: "ne", Lt: "lt", Le: "le", Gt: "gt", Ge: "ge",
		Not: "not", And: "and", Or: "or", Xor: "xor",
		SelectN: "select_n", Clamp: "clamp", ConvertElementType: "convert_element_type", Round: "round", StochasticRound: "stochastic_round",
		IsFinite: "is_finite", SiLU: "silu", SiLUGrad: "silu_grad", SwiGLU: "swiglu", SwiGLUGrad: "swiglu_grad", GELU: "gelu", GELUGrad: "gelu_grad",
		AdamW:          "adamw",
		BroadcastInDim: "broadcast_in_dim", Transpose: "transpose", Slice: "slice", Rev: "rev", Concatenate: "concatenate", Pad: "pad", Iota: "iota",
		RowsTogether: "rows_together", RowsApart: "rows_apart", DynamicSlice: "dynamic_slice", DynamicUpdateSlice: "dynamic_update_slice",
		CacheUpdate: "cache_update", Embedding: "embedding", EmbeddingPart: "embedding_part", EmbeddingGrad: "embedding_grad", Gather: "gather",
		TakeAlongAxis: "take_along_axis", AddAlongAxis: "add_along_axis", ScatterAdd: "scatter_add", OneHot: "one_hot",
		ReduceSum: "reduce_sum", ReduceProd: "reduce_prod", ReduceMax: "reduce_max", ReduceMin: "reduce_min", CumSum: "cumsum", ArgMax: "argmax",
		ArgMin: "argmin", Sort: "sort", TopK: "top_k", SegmentsApart: "segments_apart", SubtreesAdded: "subtrees_added",
		RandomSeed: "random_seed", RandomSplit: "random_split", RandomFoldIn: "random_fold_in", RandomBits: "random_bits", RandomUniform: "random_uniform",
		RandomNormal: "random_normal",
		RMSNorm:      "rms_norm", RMSNormGrad: "rms_norm_grad", RMSNormGainGrad: "rms_norm_gain_grad", LayerNorm: "layer_norm",
		LayerNormGrad: "layer_norm_grad", LayerNormGainGrad: "layer_norm_gain_grad", Softmax: "softmax", SoftmaxGrad: "softmax_grad",
		LogSoftmax: "log_softmax", LogSoftmaxGrad: "log_softmax_grad", LogSumExp: "logsumexp", CrossEntropy: "cross_entropy",
		CrossEntropyGrad: "cross_entropy_grad", Rope: "rope", RopeAngles: "rope_angles", Attention: "attention", AttentionGrad: "attention_grad", Recurrence: "recurrence", RecurrenceGrad: "recurrence_grad", CausalConvolution: "causal_convolution", CausalConvolutionGrad: "causal_convolution_grad",
		DotGeneral: "dot_general", ScaledMatMul: "scaled_matmul", AffineMatMul: "affine_matmul", GroupedMatMul: "grouped_matmul",
		GroupedScaledMatMul: "grouped_scaled_matmul", GroupedAffineMatMul: "grouped_affine_matmul", GroupedOuter: "grouped_outer",
		GroupedMatMulSum: "grouped_matmul_sum", GroupedSwiGLU: "grouped_swiglu", GroupedSwiGLUGrad: "grouped_swiglu_grad", RowDots: "row_dots",
		Dequantize: "dequantize",
		Router:     "router", EPArrived: "ep_arrived", EPBlockRows: "ep_block_rows", EPChoices: "ep_choices", EPCopies: "ep_copies",
		EPCopyChoices: "ep_copy_choices", EPCount: "ep_count", EPFromSegments: "ep_from_segments", EPJourney: "ep_journey", EPKeep: "ep_keep", EPOrder: "ep_order",
		EPPack: "ep_pack", EPPackInline: "ep_pack_inline", EPPackRows: "ep_pack_rows", EPPackSums: "ep_pack_sums", EPPadded: "ep_padded",
		EPPass: "ep_pass", EPPassage: "ep_passage", EPPlace: "ep_place", EPPrepare: "ep_prepare",
		EPPrepareAlone: "ep_prepare_alone", EPPrepareRows: "ep_prepare_rows", EPReceive: "ep_receive", EPRecvOrder: "ep_recv_order",
		EPSendOrder: "ep_send_order", EPSlots: "ep_slots", EPSpread: "ep_spread", EPSum: "ep_sum", EPSumMachine: "ep_sum_machine",
		EPSumMachines: "ep_sum_machines", EPSumRanks: "ep_sum_ranks", EPTable: "ep_table", EPZones: "ep_zones",
	}[o.Plain()]
	for i, suffix := range [...]string{"_blocks", "_parts", "_tree", "_weighted", "_weights", "_wire"} {
		if o.Has(Blocks << i) {
			name += suffix
		}
	}
	return name
}
