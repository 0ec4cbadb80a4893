// Package recurrence computes linear recurrences with a matrix as their state, and their derivatives:
// the gated delta rule, Kimi's delta attention, Mamba2 and linear attention with a fixed decay.
//
// A head has a state S[K,V]. Row t of a sequence has a query and a key of K elements, a value of V,
// a decay, the logarithm of the factor of S, at most 0, of one element or of K, and for the delta rule
// a rate β:
//
//	S = diag(exp(decay)) S
//	u = β (v - Sᵀ k)        the delta rule; otherwise u = v
//	S = S + k uᵀ
//	o = Sᵀ q
//
// Rows are computed one after another, for a strip of columns of S that stays in a core's nearest cache. A pass over
// the strip completes a row, and multiplies the new state by the next key.
//
// The derivative is computed in blocks: within a block the effect of earlier rows on later ones is a product of
// matrices. With c the sums of decays since the block's start, S the state there, and Γ[i,j] = exp(c[i] - c[j]),
//
//	L[i,j] = (k[i]·k[j]) Γ[i,j] for j < i,   A[i,j] = (q[i]·k[j]) Γ[i,j] for j ≤ i
//	u[i] = β[i] (v[i] - exp(c[i]) k[i]ᵀ S - Σ_j L[i,j] u[j])
//	o[i] = exp(c[i]) q[i]ᵀ S + Σ_j A[i,j] u[j]
//	S    = exp(c[last]) S + Σ_j exp(c[last] - c[j]) k[j] u[j]ᵀ
//
// A decay per channel stands inside the sums over K. No exponent is above 0, so nothing overflows.
package recurrence

//go:generate go run -C ../asm . -set recurrence -out ../recurrence/asm_row_amd64.s -stubs ../recurrence/asm_row_amd64.go -pkg recurrence
//go:generate go run ../neon -set recurrence -out asm_row_arm64.s -stubs asm_row_arm64.go -pkg recurrence
