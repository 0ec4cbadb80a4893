package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gomoe/gomoe/internal/launch"
	"github.com/gomoe/gomoe/internal/measure"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/world"
)

// start measures one transport, starting the ranks itself.
func (b *collectives) start(ctx context.Context, transport string, report func(measure.Row)) error {
	switch transport {
	case "local":
		return b.local(ctx, report)
	case "copy":
		return measure.Copy(b.ranks, b.o, report)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	words := []string{exe, "bench", "collectives", "-json", "-", "-transport", transport, "-ops", b.ops, "-min", strconv.FormatInt(b.o.Min, 10), "-max", strconv.FormatInt(b.o.Max, 10),
		"-memory", strconv.FormatInt(int64(*b.memory), 10), "-factor", strconv.Itoa(b.o.Factor), "-batches", strconv.Itoa(b.o.Batches), "-batch", b.o.Batch.String(), "-n", strconv.Itoa(b.ranks)}
	words = append(words, b.moe.flags()...)
	if *b.deadline > 0 {
		words = append(words, "-deadline", b.deadline.String())
	}
	if launcher := world.TransportOf(transport).Launcher; launcher != "" {
		return b.launched(ctx, launcher, words, report)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	var errs bytes.Buffer
	status, err := launch.Run(context.WithoutCancel(ctx), launch.Options{
		Command: words, Ranks: b.ranks, Transport: transport, Stdout: &rowReader{prefix: "[0] ", report: report, rest: &errs}, Stderr: &errs, Signals: signals,
	})
	if err == nil && status != 0 {
		err = errors.New("a rank failed")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, ofLauncher(errs.String()))
	}
	return nil
}

// ofLauncher returns the launcher's messages from text, dropping lines of ranks. The launcher
// repeats the last lines of the first failing rank, and the lines of the other ranks mostly say the
// same.
func ofLauncher(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, "[") })
	return strings.TrimSuffix(strings.Join(lines, "\n"), "\n")
}

// launched is like start, but an installed MPI's launcher starts the ranks, which find each other
// through MPI.
func (b *collectives) launched(ctx context.Context, launcher string, words []string, report func(measure.Row)) error {
	if _, err := exec.LookPath(launcher); err != nil {
		return fmt.Errorf("%s is not there: apt install openmpi-bin", launcher)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, launcher, append([]string{"--oversubscribe", "-n", strconv.Itoa(b.ranks)}, words...)...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	cmd.Stdout, cmd.Stderr = &rowReader{report: report, rest: &errs}, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, errs.Bytes())
	}
	return nil
}

// rowReader turns the lines of rank 0 into rows.
type rowReader struct {
	prefix string
	report func(measure.Row)
	rest   io.Writer
	line   []byte
}

func (r *rowReader) Write(p []byte) (int, error) {
	r.line = append(r.line, p...)
	for {
		i := bytes.IndexByte(r.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := r.line[:i]
		var row measure.Row
		if text, ok := bytes.CutPrefix(line, []byte(r.prefix)); ok && json.Unmarshal(text, &row) == nil {
			r.report(row)
		} else {
			fmt.Fprintf(r.rest, "%s\n", line)
		}
		r.line = r.line[i+1:]
	}
}

// local measures ranks that are goroutines of this process.
func (b *collectives) local(ctx context.Context, report func(measure.Row)) error {
	comms, err := engine.Local(b.ranks, jaccl.Options{Deadline: *b.deadline})
	if err != nil {
		return err
	}
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Go(func() {
			r := report
			if i > 0 {
				r = func(measure.Row) {}
			}
			if errs[i] = measure.Run(ctx, "local", c, b.o, r); errs[i] != nil {
				c.Fail(errs[i])
			}
		})
	}
	wg.Wait()
	for _, c := range comms {
		errs = append(errs, c.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return b.moe.measure(ctx, nil, b.ranks, "local", report)
}

// asRank measures the job of which this process is a rank. Rank 0 reports the rows.
func (b *collectives) asRank(ctx context.Context) (err error) {
	var w world.World
	if strings.Contains(b.transport, ",") || b.transport == "copy" {
		return usagef("-transport %s: want one transport inside of a job", b.transport)
	}
	if err := w.Setup(ctx, world.Config{Transport: b.transport, Deadline: *b.deadline}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	info, err := w.Info()
	if err != nil {
		return err
	}
	comms, err := w.Communicators()
	if err != nil {
		return err
	}
	c := comms[0]
	var rows []measure.Row
	var failed error
	if info.First() {
		if err := b.out.open(); err != nil {
			return err
		}
		defer b.out.close()
	}
	report := func(r measure.Row) {
		if !info.First() {
			return
		}
		rows = append(rows, r)
		if err := b.out.print(r); err != nil && failed == nil {
			failed = err
		}
	}
	o := b.o
	if s, ok := c.(interface{ Alloc(n int) ([]byte, error) }); ok {
		o.Alloc = func(n int) ([]byte, error) {
			m, err := s.Alloc(n)
			if errors.Is(err, jaccl.ErrUnsupported) {
				return make([]byte, n), nil
			}
			return m, err
		}
	}
	if err := measure.Run(ctx, info.Transport, c, o, report); err != nil {
		return err
	}
	if err := b.moe.measure(ctx, &w, info.Size, info.Transport, report); err != nil {
		return err
	}
	if info.First() && failed == nil {
		return b.save(rows)
	}
	return failed
}
