// Package serve answers requests over HTTP with a model, as OpenAI's interface has them: completions of texts and of
// conversations, whole or as a stream of events, and the list of models. Beside it are /health, /metrics for
// Prometheus, and a page to talk to the model.
//
// Begin with New, and call Serve. Package generate computes the tokens.
package serve
