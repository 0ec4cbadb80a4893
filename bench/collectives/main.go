package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/internal/measure"
	"github.com/gomoe/gomoe/internal/whole"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "collectives:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	ranks    []int
	rounds   int
	min, max int64
	factor   int
	batches  int
	batch    time.Duration
	ops      []string
	only     *regexp.Regexp
	out      string
	patience time.Duration
}

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("collectives", flag.ContinueOnError)
	ranks := f.String("n", "2,4", "`numbers` of ranks, with commas between")
	ops := f.String("ops", "all_sum,all_to_all,all_gather,reduce_scatter", "`operations`, with commas between")
	only := f.String("sides", "", "sides whose names match this `regexp`")
	f.IntVar(&s.rounds, "rounds", 3, "interleaved `rounds`; the result is their median")
	f.Int64Var(&s.min, "min", 1<<10, "smallest size in `bytes`")
	f.Int64Var(&s.max, "max", 16<<20, "largest size in `bytes`")
	f.IntVar(&s.factor, "factor", 4, "of one size to the next")
	f.IntVar(&s.batches, "batches", 5, "`times` taken of each size in a round")
	f.DurationVar(&s.batch, "batch", 20*time.Millisecond, "about how `long` one of them is")
	f.StringVar(&s.out, "out", "out/bench-collectives", "`folder` for table.md, rows.json and collectives-N.png")
	f.DurationVar(&s.patience, "patience", 5*time.Minute, "how `long` a side may take for a round")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	for _, w := range strings.Split(*ranks, ",") {
		n, err := strconv.Atoi(w)
		if err != nil || n < 2 {
			return s, fmt.Errorf("-n %s: want numbers of 2 or more", *ranks)
		}
		s.ranks = append(s.ranks, n)
	}
	s.ops = strings.Split(*ops, ",")
	for _, op := range s.ops {
		if !slices.Contains(measure.Ops(), op) {
			return s, fmt.Errorf("-ops: there is no %q, want some of %v", op, measure.Ops())
		}
	}
	if f.NArg() > 0 || s.rounds < 1 || s.batches < 1 || s.factor < 2 || s.min < 4 || s.max < s.min {
		return s, errors.New("want flags only, at least one round and batch, a factor of 2 or more, and sizes of 4 bytes or more; see -help")
	}
	var err error
	s.only, err = regexp.Compile(*only)
	return s, err
}

// place identifies a row of the table, measured by every side.
type place struct {
	side  string
	op    string
	ranks int
	bytes int64
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gomoe-collectives-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	var rows []measure.Row
	var notes []string
	for _, n := range s.ranks {
		got, missing, err := s.interleave(ctx, dir, n, out)
		if err != nil {
			return err
		}
		rows = append(rows, got...)
		notes = append(notes, missing...)
		path := filepath.Join(s.out, fmt.Sprintf("collectives-%d.png", n))
		if err := whole.Write(path, func(w io.Writer) error { return measure.Plot(w, got) }); err != nil {
			return err
		}
	}
	return s.write(rows, notes, out)
}

// interleave runs all sides with n ranks, round by round, and returns the medians.
func (s settings) interleave(ctx context.Context, dir string, n int, out io.Writer) (rows []measure.Row, notes []string, err error) {
	var sides []side
	for _, x := range allSides() {
		if !s.only.MatchString(x.name) {
			continue
		}
		if why := x.prepare(ctx, dir); why != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", x.name, why))
			continue
		}
		sides = append(sides, x)
	}
	failed := map[string]bool{}
	all := map[place][]measure.Row{}
	var order []place
	for round := range s.rounds {
		for _, x := range sides {
			if failed[x.name] {
				continue
			}
			fmt.Fprintf(out, "%d ranks, round %d of %d: %s\n", n, round+1, s.rounds, x.name)
			got, err := s.once(ctx, x, dir, n)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			if err != nil {
				failed[x.name] = true
				notes = append(notes, fmt.Sprintf("%s with %d ranks: %v", x.name, n, err))
				continue
			}
			for _, r := range got {
				p := place{x.name, r.Op, r.Ranks, r.Bytes}
				if all[p] == nil {
					order = append(order, p)
				}
				all[p] = append(all[p], r)
			}
		}
	}
	for _, p := range order {
		rows = append(rows, median(all[p]))
	}
	return rows, notes, nil
}

// once runs one side and returns the rows printed by its first rank.
func (s settings) once(ctx context.Context, x side, dir string, n int) ([]measure.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var errs strings.Builder
	cmd := x.command(ctx, dir, n, s)
	cmd.Stderr = &errs
	cmd.WaitDelay = 5 * time.Second
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, errs.String())
	}
	var rows []measure.Row
	for l := bufio.NewScanner(strings.NewReader(string(text))); l.Scan(); {
		var r measure.Row
		if err := json.Unmarshal(l.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Text(), err)
		}
		r.Transport = x.name
		rows = append(rows, r)
	}
	return rows, nil
}

// median returns the row with the middle time.
func median(rows []measure.Row) measure.Row {
	best := rows[0].Best
	for _, r := range rows {
		best = min(best, r.Best)
	}
	slices.SortFunc(rows, func(a, b measure.Row) int {
		if a.Micros < b.Micros {
			return -1
		}
		return 1
	})
	m := rows[len(rows)/2]
	m.Best = best
	return m
}

// write writes the table and the rows.
func (s settings) write(rows []measure.Row, notes []string, out io.Writer) error {
	slices.SortStableFunc(rows, func(a, b measure.Row) int {
		if a.Ranks != b.Ranks {
			return a.Ranks - b.Ranks
		}
		if a.Op != b.Op {
			return slices.Index(s.ops, a.Op) - slices.Index(s.ops, b.Op)
		}
		return int(a.Bytes - b.Bytes)
	})
	var text strings.Builder
	text.WriteString("Microseconds of a call, and bus bandwidth in GB/s: medians of " + strconv.Itoa(s.rounds) + " interleaved rounds.\n\n")
	if err := measure.Markdown(&text, rows); err != nil {
		return err
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(notes))) {
		text.WriteString("\nNot measured: " + n + "\n")
	}
	io.WriteString(out, "\n"+text.String())
	if err := whole.Write(filepath.Join(s.out, "table.md"), func(w io.Writer) error { _, err := io.WriteString(w, text.String()); return err }); err != nil {
		return err
	}
	b, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return err
	}
	return whole.Write(filepath.Join(s.out, "rows.json"), func(w io.Writer) error { _, err := w.Write(b); return err })
}
