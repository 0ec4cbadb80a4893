package models

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// quantized reads how a checkpoint's weights are quantised. It accepts DeepSeek's matrices of 8-bit floats with a
// scale per block of 128×128, experts in MXFP4 blocks, and MLX's quantisation, which is checked tensor by tensor
// when the weights are located. Rows multiplied by 8-bit matrices keep the model's computation type:
// activation_scheme is ignored. Everything else is an error.
func (r *Reader) quantized() error {
	const in, other = "quantization_config", "compression_config"
	if r.c.GGUF() {
		return r.err
	}
	if v, _ := r.c.Value(other); states(v) {
		return fmt.Errorf("%s: %s: gomoe opens no weights that are quantised so; want the model without it, or a GGUF file", r.c.Path, other)
	}
	if mlx, err := r.quantizedByMLX(in); mlx || err != nil {
		return err
	}
	if v, _ := r.c.Value(in); !states(v) || r.read[in] {
		return r.err
	}
	r.read[in] = true
	switch method := r.TextOr(Keys{in + ".quant_method"}, ""); method {
	case "fp8", "mxfp4": // repeated by names and element types of tensors
	default:
		return fmt.Errorf("%s: %s: the weights are quantised by %s, want fp8 or mxfp4; gomoe opens no other such weights of architecture %s, but GGUF files", r.c.Path, in, quoted.Name(method), quoted.Name(r.c.Architecture))
	}
	r.Only(Keys{in + ".fmt"}, "e4m3", "float8_e4m3fn")
	r.Only(Keys{in + ".weight_block_size"}, "[128 128]")
	r.Only(Keys{in + ".scale_fmt"}, "ue8m0", "float", "float32") // rounding of the scales, which are stored as numbers
	r.Only(Keys{in + ".is_checkpoint_fp8_serialized"}, "true")
	// The tensors tell which matrices are quantised, and dequantize concerns loading only.
	for _, name := range []string{"activation_scheme", "dequantize", "exclude_modules", "ignore", "ignored_layers", "modules_to_not_convert"} {
		r.read[in+"."+name] = true
	}
	r.known(in)
	return r.err
}

// quantizedByMLX reports whether config.json declares MLX's quantisation, which it repeats under the name again.
func (r *Reader) quantizedByMLX(again string) (bool, error) {
	const key = "quantization"
	said, ok, err := r.c.Object(key)
	if !ok || err != nil {
		return false, err
	}
	r.read[key] = true
	for _, name := range said.Keys() {
		if slices.Contains([]string{"bits", "group_size", "mode"}, name) {
			continue
		}
		if _, err := r.files.Tensor(name + ".weight"); err != nil && !strings.HasPrefix(name, "model.layers.") {
			return true, fmt.Errorf("%s: %s has %s, want bits, group_size, mode or the name of a layer", r.c.Path, key, quoted.Name(name))
		}
	}
	if v, ok := r.c.Value(again); ok {
		first, _ := r.c.Value(key)
		if r.read[again] = true; !reflect.DeepEqual(v, first) {
			return true, fmt.Errorf("%s: %s says something else than %s, want the same, or one of them", r.c.Path, again, key)
		}
	}
	return true, r.err
}
