// Package lm trains language models. It provides the training step, with a loss per token and load-balancing losses
// for experts; the course of a run; and commands that train their own model on text.
//
// Begin with Command for a program of its own:
//
//	func main() { lm.Main(lm.Command{Name: "my_lm", Usage: usage, Model: &model{}, Draw: picture.Draw}) }
//
// A Step is traced from a function returning logits. A Training runs it: it prints the memory needed, starts or
// resumes, measures the held-out loss and prints a summary. A Command adds flags, a text, signal handling, a check
// of the mesh against one rank, saving the model and generating a sample. gomoe train and gomoe finetune use
// Training; examples/moe_lm is a Command.
package lm
