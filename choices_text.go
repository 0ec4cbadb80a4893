package gomoe

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gomoe/gomoe/lowering"
)

// WriteChoices writes the results of Choices as a table, followed by the errors of Choices
// without a plan.
func WriteChoices(w io.Writer, all []Taken) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "choice\tforward pass\texchanged\tarriving\trows\tin expert order\tarena\tin use\tmemory")
	for i, x := range all {
		name := x.Name
		if i == 0 {
			name += " (as written)"
		}
		if x.Err != "" {
			fmt.Fprintf(t, "%s\tno plan, see below\t-\t-\t-\t-\t-\t-\t-\n", name)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", name, cmp.Or(x.Changes, "same bits"), lowering.Bytes(x.Exchanged),
			lowering.Bytes(x.Arrive), x.Rows, x.Pairs, lowering.Bytes(x.Arena), lowering.Bytes(x.Peak), lowering.Bytes(x.Total))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range all {
		if x.Err != "" {
			if _, err := fmt.Fprintf(w, "%s: %s\n", x.Choice, x.Err); err != nil {
				return err
			}
		}
	}
	return nil
}
