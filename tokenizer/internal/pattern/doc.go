// Package pattern matches the regular expressions used by tokenizers to split text into words.
//
// Published patterns are written for Oniguruma, the engine of Hugging Face's package tokenizers: they use
// lookahead, possessive repetitions and nested classes, and [Compile] supports that syntax. Groups do not capture;
// there are no back references.
//
// [Pattern.Each] tries the alternatives of a pattern in order, backtracking on failure. It counts its steps, so a
// pattern that would take exponential time fails with [ErrBudget].
package pattern
