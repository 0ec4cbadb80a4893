package ops

import "testing"

// Every operation has a name of its own, also with variants.
func TestNames(t *testing.T) {
	seen := map[string]Op{}
	for _, plain := range append(All(), None) {
		for v := Op(0); v <= Wire/kinds; v = max(2*v, 1) {
			op := plain | v*kinds
			name := op.String()
			if other, ok := seen[name]; ok || name == "" && op != None {
				t.Errorf("operation %#x is %q, and so is %#x", uint32(op), name, uint32(other))
			}
			seen[name] = op
		}
	}
}
