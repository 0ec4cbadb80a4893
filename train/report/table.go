package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Experts writes a table of the tokens routed to every expert, tokens[layer][expert]. Each layer has a row with the
// tokens of each expert, or with the least, the median and the most if there are more than 16 experts; max/mean,
// which is 1 for an even load and the number of experts if one receives everything; and dead, the number of experts
// without tokens, with a list of them. It returns an error of the writer, or an error if layers differ in their
// number of experts.
func Experts(w io.Writer, tokens [][]int64) error {
	if len(tokens) == 0 || len(tokens[0]) == 0 {
		_, err := fmt.Fprintln(w, "no experts")
		return wrap(err)
	}
	experts := len(tokens[0])
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells []string, last string) {
		// tabwriter aligns only cells ending with a tab; the last cell is left alone.
		fmt.Fprintf(tw, "%s\t%s\n", strings.Join(cells, "\t"), strings.TrimRight("  "+last, " "))
	}
	head := []string{"layer", "tokens"}
	if experts > listed {
		head = append(head, "least", "median", "most")
	} else {
		for e := range experts {
			head = append(head, fmt.Sprint("e", e))
		}
	}
	row(append(head, "max/mean"), "dead")
	for layer, counts := range tokens {
		if len(counts) != experts {
			return fmt.Errorf("report: experts: layer %d has %d experts, want %d as layer 0", layer, len(counts), experts)
		}
		var sum int64
		for _, n := range counts {
			sum += n
		}
		cells := []string{fmt.Sprint(layer), fmt.Sprint(sum)}
		if experts > listed {
			sorted := slices.Sorted(slices.Values(counts))
			cells = append(cells, fmt.Sprint(sorted[0]), fmt.Sprint(sorted[experts/2]), fmt.Sprint(sorted[experts-1]))
		} else {
			for _, n := range counts {
				cells = append(cells, fmt.Sprint(n))
			}
		}
		imbalance := "-" // no tokens
		if sum > 0 {
			imbalance = fmt.Sprintf("%.2f", float64(slices.Max(counts))*float64(experts)/float64(sum))
		}
		row(append(cells, imbalance), dead(counts))
	}
	return wrap(tw.Flush())
}

// dead lists the experts without tokens: "2: e3 e7", at most 8 of them.
func dead(counts []int64) string {
	var names []string
	for e, n := range counts {
		if n == 0 {
			names = append(names, fmt.Sprint("e", e))
		}
	}
	if len(names) == 0 {
		return "0"
	}
	const shown = 8
	list := strings.Join(names[:min(shown, len(names))], " ")
	if len(names) > shown {
		list += " ..."
	}
	return fmt.Sprintf("%d: %s", len(names), list)
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("report: experts: %w", err)
	}
	return nil
}
