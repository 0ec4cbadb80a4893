// Package serve answers HTTP requests with a model, using OpenAI's interface: completions of texts and of
// conversations, as a whole or streamed as events, and the list of models. In addition it serves /health, /metrics
// for Prometheus, and a page for talking to the model.
//
// Begin with New, and call Serve. Package generate computes the tokens.
package serve
