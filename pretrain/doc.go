// Package pretrain trains a model of package models from nothing, as a file of settings says: architecture, text, mesh,
// optimiser. What is silent is that of moe_lm, so {} is a run.
//
//	s, err := pretrain.Read("settings.json")
//	err = pretrain.Run(ctx, stop, s, pretrain.Options{Out: "out", Stdout: os.Stdout})
//
// The folder that it leaves opens in gomoe generate and in transformers.
package pretrain
