// Package evaluate measures how well a model predicts a text: the loss of each token, the perplexity, and how many tokens
// each expert gets.
//
// Begin with Text.
package evaluate
