package main

import (
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/train/picture"
)

const usage = `moe_lm trains a byte-level mixture-of-experts language model on a mesh of ranks, in
this process or in one each.

  moe_lm                     four ranks, the Go standard library's source
  moe_lm -mesh dp=1,ep=8     the same model, placed otherwise
  moe_lm -check              one rank against the mesh
  moe_lm -data notes,b.txt   on files and folders of yours
  moe_lm -dtype bf16         mixed precision: products of bf16, weights of f32
  moe_lm -device metal       kernels on Apple's GPU, on a Mac

  moe_lm -save-every 100 -resume    go on where an earlier run ended, however it ended
  gomoe launch -n 4 -- moe_lm       four processes; mpirun, torchrun and mlx.launch start them, too

The first Ctrl-C or SIGTERM ends a run in order, a second one at once. The flags:

`

func main() { lm.Main(program()) }

func program() lm.Command {
	return lm.Command{Name: "moe_lm", Usage: usage, Model: &model{}, Draw: picture.Draw}
}
