package checkpoint

import (
	"fmt"
	"strings"
)

// Quantization is how MLX has quantised a matrix: each GroupSize numbers of a row are integers of Bits bits in words of 32,
// the first in the lowest bits. With mode AffineMode a group has a scale and a bias, in the tensors scales and biases beside
// weight; with MXFP4Mode the integers are MXFP4's and the scales bytes.
type Quantization struct {
	Mode            string
	Bits, GroupSize int
}

// Modes of quantisation that are opened.
const (
	AffineMode = "affine"
	MXFP4Mode  = "mxfp4"
)

// quantizationKey is where config.json says how MLX has quantised a model: for all layers, and by their names for those that
// differ.
const quantizationKey = "quantization"

// Quantization returns how MLX has quantised the matrix in the tensor with a name, which ends with .weight; zero if it has not.
// It is quantised if the tensor has scales beside it, and config.json says how.
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

// quantization returns how config.json says that a layer is quantised.
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
