package jinja

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Decode parses a JSON text, preserving the order of keys.
func Decode(data []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("JSON nests deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			out := &list{}
			for d.More() {
				v, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				out.items = append(out.items, v)
			}
			_, err := d.Token()
			return out, err
		}
		out := NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(k.(string), v)
		}
		_, err := d.Token()
		return out, err
	case json.Number:
		return decodeNumber(t)
	}
	return t, nil
}

// decodeNumber parses a number as Python does: an integer of any size, or a float, which may be infinite.
func decodeNumber(t json.Number) (any, error) {
	if strings.ContainsAny(string(t), ".eE") {
		f, err := t.Float64()
		if math.IsInf(f, 0) {
			err = nil
		}
		return f, err
	}
	if n, err := t.Int64(); err == nil {
		return n, nil
	}
	if len(t) > maxDigits {
		return nil, fmt.Errorf("an integer of %d digits, want at most %d", len(t), maxDigits)
	}
	n, ok := new(big.Int).SetString(string(t), 10)
	if !ok {
		return nil, fmt.Errorf("a number that cannot be read")
	}
	return n, nil
}
