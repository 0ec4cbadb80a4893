package checkpoint

import (
	"fmt"
	"strings"
)

// Quantization is MLX's quantisation of a matrix: each GroupSize numbers of a row are integers of Bits bits, packed
// into 32-bit words from the lowest bits up. In AffineMode every group has a scale and a bias, in tensors named
// scales and biases. In MXFP4Mode the integers are MXFP4 elements, and scales are bytes.
type Quantization struct {
	Mode            string
	Bits, GroupSize int
}

// Supported modes of quantisation.
const (
	AffineMode = "affine"
	MXFP4Mode  = "mxfp4"
)

// quantizationKey is the member of config.json describing MLX's quantisation of a model: for all layers, and by
// name for layers that differ.
const quantizationKey = "quantization"

// Quantization returns MLX's quantisation of the matrix in the named tensor, or zero if it is not quantised. The
// name ends with .weight. A matrix is quantised if there is a tensor with its scales, and config.json gives the
// parameters.
func (c *Checkpoint) Quantization(name string) (Quantization, error) {
	layer, ok := strings.CutSuffix(name, ".weight")
	if !ok || c.Format != Safetensors {
		return Quantization{}, nil
	}
	if _, ok := c.byName[layer+".scales"]; !ok {
		return Quantization{}, nil
	}
	return c.Config.quantization(layer)
}

// quantization returns the quantisation of a layer according to config.json.
func (c Config) quantization(layer string) (q Quantization, err error) {
	all, ok, err := c.Object(quantizationKey)
	if err != nil {
		return q, err
	} else if !ok {
		return q, fmt.Errorf("%s: %s is missing, and says how %s.weight is quantised, which has %[3]s.scales beside it", c.Path, quantizationKey, layer)
	}
	at := quantizationKey
	if v, ok := all.Value(layer); ok && v != true {
		at += "." + layer
		if v == false {
			return q, fmt.Errorf("%s: %s is false, and the layer has the tensor %s.scales of a quantised one", c.Path, at, layer)
		}
		if all, _, err = all.Object(layer); err != nil {
			return q, fmt.Errorf("%s: %w", quantizationKey, err)
		}
	}
	if q.Mode, ok, err = all.Text("mode"); err == nil && !ok {
		q.Mode = AffineMode
	}
	for key, to := range map[string]*int{"bits": &q.Bits, "group_size": &q.GroupSize} {
		if err == nil {
			*to, ok, err = all.Int(key)
		}
		if err == nil && !ok {
			err = fmt.Errorf("%s: %s.%s is missing", c.Path, at, key)
		}
	}
	return q, err
}
