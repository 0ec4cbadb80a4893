// Package pretrain trains a model of package models from scratch according to a settings file: architecture, text,
// mesh, optimiser. Omitted settings default to the values of moe_lm, so {} is a valid file.
//
//	s, err := pretrain.Read("settings.json")
//	err = pretrain.Run(ctx, stop, s, pretrain.Options{Out: "out", Stdout: os.Stdout})
//
// Begin with Read and Run. The resulting folder opens in gomoe generate and in transformers. To train a published
// model further, use package finetune.
package pretrain
