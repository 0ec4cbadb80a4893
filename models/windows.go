package models

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
)

// Values in layer_types.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// Windows returns a function giving the maximum number of keys for a query of layer l, 0 for no limit. It is window
// in the layers listed as sliding in layer_types or, without layer_types, in those for which slides returns true.
// inGGUF reports which layers have the window in GGUF files, which have no key for it.
func (r *Reader) Windows(layers, window int, slides, inGGUF func(l int) bool) func(l int) int {
	kinds := list[string](r, "layer_types", "the kinds of attention of the layers")
	if len(kinds) != 0 && len(kinds) != layers {
		r.Fail(fmt.Errorf("%s: layer_types has %d of %d layers", r.c.Path, len(kinds), layers))
	}
	for l, kind := range kinds {
		switch {
		case kind != slidingAttention && kind != fullAttention:
			r.Fail(fmt.Errorf("%s: layer_types has %s for layer %d, want %s or %s", r.c.Path, quoted.Name(kind), l, slidingAttention, fullAttention))
		case kind == slidingAttention && window == 0:
			r.Fail(fmt.Errorf("%s: layer_types has %s for layer %d, and the model has no window; want %s", r.c.Path, quoted.Name(kind), l, fullAttention))
		}
	}
	if r.err != nil {
		return func(int) int { return 0 }
	}
	all, same := make([]string, layers), true
	of := func(l int) int {
		if len(kinds) > 0 && kinds[l] == slidingAttention || len(kinds) == 0 && slides(l) {
			return window
		}
		return 0
	}
	for l := range all {
		if all[l] = fullAttention; of(l) > 0 {
			all[l] = slidingAttention
		}
		same = same && of(l) > 0 == inGGUF(l)
	}
	r.Say(Keys{"layer_types"}, all, same)
	return of
}

// fullEverywhere reports whether layer_types lists every layer as full, for families with a single kind of
// attention.
func (r *Reader) fullEverywhere() bool {
	v, _ := r.c.Value("layer_types")
	kinds, ok := v.([]any)
	return ok && !slices.ContainsFunc(kinds, func(kind any) bool { return kind != fullAttention })
}

// Windowed returns a function giving each layer's attention, with its window.
func Windowed(a nn.Attention, windows func(l int) int) func(l int) Mixer {
	return func(l int) Mixer {
		a := a
		a.Window = windows(l)
		return a
	}
}

// qwenWindows returns the windows of a Qwen family, which GGUF files lack. slides selects the layers with a window
// if layer_types is missing; first is max_window_layers.
func (r *Reader) qwenWindows(layers int, slides func(l, first int) bool) func(l int) int {
	use := Keys{"use_sliding_window"}
	window, first, on := 0, or(r, Keys{"max_window_layers"}, r.c.Int, 0), r.FlagOr(use, false)
	if size := r.SizeOr(Keys{"sliding_window"}, 0); on {
		window = size
	}
	of := r.Windows(layers, window, func(l int) bool { return window > 0 && slides(l, first) }, func(int) bool { return false })
	any := false
	for l := range layers {
		any = any || of(l) > 0
	}
	r.Say(use, any, !any)
	r.Say(Keys{"sliding_window"}, window, !any)
	r.Say(Keys{"max_window_layers"}, nil, true)
	return of
}
