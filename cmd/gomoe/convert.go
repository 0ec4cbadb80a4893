package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
)

func (t *tool) convertCommand() *ffcli.Command {
	return t.filesCommand("convert", "gomoe convert MODEL OUT [-mlx] [-type f16]", "Write a model's files in another form.",
		"MODEL is a folder with safetensors files, config.json and tokenizer.json, or a GGUF file. OUT is a GGUF file if its name\n"+
			"ends with .gguf, and else a folder as Hugging Face has them, or with -mlx as MLX has them. The element types stay as they\n"+
			"are unless -type is given, but that 4-bit and 8-bit weights with scales become numbers where OUT's form has none such; norms\n"+
			"and routers are f32 in GGUF files. The tokenizer and the chat template go along. A setting of which llama.cpp, for GGUF\n"+
			"files, or mlx-lm, with -mlx, computes another value is an error. OUT must not be there before, and is complete or absent\n"+
			"afterwards.", false)
}

func (t *tool) quantizeCommand() *ffcli.Command {
	return t.filesCommand("quantize", "gomoe quantize MODEL OUT -type q4_k | -mlx -bits 4", "Write a model with fewer bits per weight.",
		"MODEL and OUT are those of gomoe convert. f16 and bf16 are for all files, q8_0, q6_k, q4_k and mxfp4 for GGUF files. As in\n"+
			"llama.cpp norms and routers stay f32, the head has q6_k at least, and mxfp4 is for experts, with q8_0 for the rest; rows\n"+
			"that are no whole blocks get a type with smaller blocks. -mlx -bits 4 quantises as mlx-lm does: all matrices but routers\n"+
			"and those whose rows are no whole groups.", true)
}

func (t *tool) filesCommand(name, usage, short, long string, typed bool) *ffcli.Command {
	fs := t.flags(name)
	var o convert.Options
	fs.Func("type", "element `type` of matrices: f32, f16, bf16, q8_0, q6_k, q4_k or mxfp4", quoted.OneOf[graph.DType]{To: &o.Type, Of: convert.Types()}.Set)
	mlx := fs.Bool("mlx", false, "write a folder in MLX's layout")
	bits := fs.Int("bits", 0, "with -mlx: `n`umber of bits, 4 or 8, of the integers that matrices become; -type is then that of their scales and biases")
	group := fs.Int("group-size", 64, "with -bits: how many numbers, 32, 64 or 128, have one scale and one bias")
	quiet := fs.Bool("quiet", false, "do not print the progress to standard error")
	return &ffcli.Command{
		Name: name, ShortUsage: usage, FlagSet: fs, ShortHelp: short, LongHelp: long,
		Exec: func(ctx context.Context, args []string) error {
			paths, err := operands(fs, args)
			if err != nil {
				return err
			}
			if len(paths) != 2 {
				return usagef("%d paths %s, want two: the model and what is written", len(paths), quoted.List(paths))
			}
			if typed && o.Type == graph.NoDType && *bits == 0 {
				return usagef("no -type, want one of %s, or -mlx -bits 4", quoted.Words(convert.Types()))
			}
			if *bits != 0 {
				if o.Affine = (nn.Affine{Bits: *bits, GroupSize: *group}); !*mlx {
					return usagef("-bits is for -mlx")
				}
			}
			if o.Layout = convert.LayoutOf(paths[1]); *mlx {
				if o.Layout == convert.GGUF {
					return usagef("-mlx writes a folder, and %s is the name of a GGUF file", plainText(paths[1]))
				}
				o.Layout = convert.MLX
			}
			o.LeftOut = func(names []string) {
				fmt.Fprintf(t.stderr, "left out: %d tensors of layers that predict further tokens, which gomoe has no model of, such as %s\n", len(names), plainText(names[0]))
			}
			if !*quiet {
				p := &progress{to: t.stderr, began: time.Now(), last: time.Now()}
				o.Progress = p.print
				defer p.end()
			}
			return convert.Model(ctx, paths[1], paths[0], o)
		},
	}
}

// progress prints the number of bytes written to a file, at most once a second.
type progress struct {
	to          io.Writer
	began, last time.Time
	done        int64
}

func (p *progress) print(done, total int64) {
	p.done = done
	if now := time.Now(); now.Sub(p.last) >= time.Second && done < total {
		p.last = now
		fmt.Fprintf(p.to, "%d%% of %s\n", done*100/max(total, 1), memory.Format(total))
	}
}

// end prints the total number of bytes written.
func (p *progress) end() {
	if s := time.Since(p.began).Seconds(); p.done > 0 {
		fmt.Fprintf(p.to, "%s in %.1f s\n", memory.Format(p.done), s)
	}
}
