package lowering

import "fmt"

// Overlap selects the work of a plan while ranks exchange data. It does not change a bit
// of the results.
type Overlap uint8

const (
	// OverlapOff makes every rank wait for each collective at its instruction.
	OverlapOff Overlap = iota
	// OverlapCollectives starts collectives as soon as their arguments are available and
	// waits for them when their results are needed. Instructions on which an exchange of
	// rows between experts does not depend run after its start.
	OverlapCollectives
)

func (o Overlap) String() string {
	switch o {
	case OverlapOff:
		return "off"
	case OverlapCollectives:
		return "collectives"
	}
	return fmt.Sprintf("overlap(%d)", uint8(o))
}

// MarshalText returns the name.
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a name, so that flag.TextVar takes an Overlap.
func (o *Overlap) UnmarshalText(text []byte) error {
	for _, x := range []Overlap{OverlapOff, OverlapCollectives} {
		if x.String() == string(text) {
			*o = x
			return nil
		}
	}
	return fmt.Errorf("lowering: overlap %q, want off or collectives", text)
}

// number renumbers the collectives after instructions have moved. A loop counts as the
// collectives of all its iterations.
func (p *Plan) number() {
	seq := 0
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if in.Collectives() > 0 {
			in.Seq = seq
		}
		seq += in.Collectives()
	}
}

// until prints the instruction before which a collective is waited for.
func (p *Plan) until(in *Instr) string {
	switch in.Wait {
	case 0:
		return ""
	case len(p.Instrs):
		return ", wait @end"
	}
	return fmt.Sprintf(", wait @%d", in.Wait)
}
