// Package lm trains language models: the step of a loss per token with the losses that balance experts, a run of it from
// the first line to the last, and programs that train a model of their own on text.
//
//	func main() { lm.Main(lm.Command{Name: "my_lm", Usage: usage, Model: &model{}, Draw: picture.Draw}) }
//
// A Step is traced from a function that returns logits. A Training runs one: it prints what memory it takes, begins or goes
// on from a checkpoint, measures the loss on held-out text, and says what has come of it. A Command adds the flags, the text,
// signals, a check of the mesh against one rank, the files of the model and a sample. gomoe train and gomoe finetune are
// Trainings, and examples/moe_lm is a Command.
package lm
