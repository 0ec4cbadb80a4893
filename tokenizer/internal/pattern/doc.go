// Package pattern finds the matches of the regular expressions with which
// tokenizers cut text into words.
//
// Published patterns are written for Oniguruma, the engine of the package
// tokenizers of Hugging Face: they look ahead, have possessive repetitions and
// nested classes, and [Compile] reads that syntax. Groups only group; there are
// no captures and no back references.
//
// [Pattern.Match] tries the alternatives of a pattern in their order and goes
// back where one fails. What it tries is counted, so a pattern that would take
// exponential time ends with [ErrBudget].
package pattern
