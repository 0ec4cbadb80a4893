// Package finetune trains a published model on texts. It trains either adapters, leaving the weights in their files
// unchanged, even if quantised, or all weights.
//
// Begin with Run, which the command gomoe finetune calls. To train a model from scratch, use package pretrain.
package finetune
