// Package evaluate measures how well a model predicts a text: the loss of each token, the perplexity, and the
// number of tokens routed to each expert. It does not judge generated text.
//
// Begin with Text.
package evaluate
