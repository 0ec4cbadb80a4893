package models

import "fmt"

// quantized reads how a checkpoint says that its weights are quantised. Matrices of 8-bit floats with a scale for
// each block of 128×128, as DeepSeek publishes them, are opened as they are, and so are experts in blocks of MXFP4. Rows that
// matrices of 8 bits are multiplied with keep the type that the model is calculated in: activation_scheme is not followed.
// Everything else is an error.
func (r *reader) quantized() error {
	const in = "quantization_config"
	for _, key := range []string{"quantization", "compression_config"} {
		if _, ok := r.c.Value(key); ok && !r.c.GGUF() {
			return fmt.Errorf("%s: %s: gomoe opens no weights that are quantised so; want the model without it, or a GGUF file", r.c.Path, key)
		}
	}
	if _, ok := r.c.Value(in); !ok || r.c.GGUF() || r.read[in] {
		return r.err
	}
	r.read[in] = true
	switch method := r.textOr(keys{in + ".quant_method"}, ""); method {
	case "fp8", "mxfp4": // which names and element types of tensors say again
	default:
		return fmt.Errorf("%s: %s: the weights are quantised by %q, want fp8 or mxfp4; gomoe opens no other such weights of architecture %q, but GGUF files", r.c.Path, in, method, r.c.Architecture)
	}
	r.only(keys{in + ".fmt"}, "e4m3")
	r.only(keys{in + ".weight_block_size"}, "[128 128]")
	r.read[in+".activation_scheme"], r.read[in+".modules_to_not_convert"] = true, true
	r.known(in)
	return r.err
}
