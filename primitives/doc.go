// Package primitives holds the operations that programs are made of. Every
// operation has one name, in three forms: the builder that model code calls
// (Softmax), the type whose fields are the operation's parameters (SoftmaxOp), and
// the name in the text form (softmax). Where jax.lax has the operation, name and
// meaning are those of jax.lax. A file named after the text form has everything
// about an operation: type inference, derivative, placement, lowering with the host
// kernel, and the entry in the reference. The loops of a long kernel may stand beside it,
// in a file with the same name and _kernel (router.go and router_kernel.go).
//
// Builders run inside [graph.Trace]. A mistake in their arguments stops the
// trace with an error at the user's line.
//
// Begin with MatMul and the elementwise operations, and for a mixture of experts
// with Route. docs/reference.md has every operation with its formula and its
// placements. The builders record equations and compute nothing. To write an
// operation of your own, read docs/extending.md.
//
// # Elementwise
//
// One argument: [Neg], [Abs], [Sign], [Square], [Floor], [Ceil], [Round],
// [RoundToEven], [Exp], [Expm1], [Log], [Log1p], [Sqrt], [Rsqrt], [Sin], [Cos],
// [Tanh], [Logistic], [Erf], [IsFinite], [Not].
// Two: [Add], [Sub], [Mul], [Div], [Rem], [Pow], [Max], [Min], [And], [Or], [Xor].
// Comparisons: [Eq], [Ne], [Lt], [Le], [Gt], [Ge].
// With a number: [AddScalar], [MulScalar].
// Choice: [Where], [SelectN], [Clamp].
// Element types: [ConvertElementType]; 8 bits with scales: [QuantizeF8], [DequantizeF8].
//
// # Constants
//
// [Full], [FullLike], [ZerosLike], [OnesLike], [Iota], [OneHot].
//
// # Shapes and indices
//
// [Reshape], [Transpose], [Reverse], [BroadcastInDim], [BroadcastTo],
// [Concatenate], [Pad], [Slice], [SliceInDim], [DynamicSlice],
// [DynamicUpdateSlice], [Gather], [ScatterAdd], [TakeAlongAxis], [Embedding].
//
// # Products
//
// [MatMul], [MatMulAs], [MatMulTransposed], [MatMulTransposedAs], [MatMulAt], [DotGeneral]. With weights
// of 8 bits: [ScaledMatMul], whose scales have the type [ScaledBlocks]. With weights of 4 or
// 8 bits in MLX's layout: [AffineMatMul], whose arguments have the types that [AffineWeights]
// returns.
//
// # Reductions, scans and order
//
// [ReduceSum], [ReduceSumUnordered], [ReduceProd], [ReduceMax], [ReduceMin],
// [LogSumExp], [CumSum], [ArgMax], [ArgMin], [Sort], [TopK].
//
// # Layers
//
// Activations: [SiLU], [SwiGLU], [GELU], [GELUTanh], [Softmax], [LogSoftmax].
// Norms: [RMSNorm], [LayerNorm].
// Attention: [Attention], [CacheUpdate], [RoPE] (with the scalings LinearRoPE, NTKRoPE,
// YaRN, Llama3RoPE and LongRoPE).
//
// # Mixtures of experts
//
// [Route] chooses each token's experts, [Prepare] makes the routing, which says where
// each token goes, [Dispatch] or [DispatchWeighted] brings tokens to their experts,
// [GroupedMatMul], [GroupedMatMulTransposed] or [GroupedMatMulAt] multiplies each with its expert's
// matrix, and [Combine] brings them home. [Copies] spreads the tokens of an expert among
// copies of the expert, which several ranks may have. [InBlocks] does this for one block of
// the batch after another. [DispatchF8] and [CombineF8] let rows travel in 8 bits, [GroupedScaledMatMul]
// has weights of 8 bits, and [GroupedAffineMatMul] weights in MLX's layout. [LoadBalanceLoss]
// and [RouterZLoss] keep a router balanced and its logits small.
//
// # Training
//
// [CrossEntropy], [CrossEntropyInBlocks], [AdamW], [Dropout], [StopGradient]. For rematerialisation with vjp.Remat:
// [Barrier], and the policies [KeepProducts] and [KeepExchanges].
//
// # Random numbers
//
// With the bits of jax.random: [RandomKey], [RandomSeed], [RandomFoldIn],
// [RandomSplit], [RandomBits], [RandomUniform], [RandomNormal], [RandomBernoulli]. Rounding by them:
// [StochasticRound].
//
// # Placement
//
// [ShardingConstraint], [PlaceLike].
//
// # For tools
//
// [All] lists the operations, for [graph.Parse]. [Joins] and [DeviceJoins] are
// rules of compilation. Types that end in GradOp, [AddAlongAxisOp] and
// [GroupedOuterOp] are operations that derivatives are made of and have no builder.
package primitives
