package doctor

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// probe is the script sent to the shell of a machine.
//
//go:embed probe.sh
var probe string

// SSH asks other machines through ssh, and this machine through sh.
type SSH struct {
	// Command is ssh with its options; empty means ssh without asking for passwords.
	Command []string
}

// Ask implements Prober.
func (s SSH) Ask(ctx context.Context, host string, reach []string) (Machine, error) {
	words := []string{"sh", "-s", "--"}
	if !local(host) {
		ssh := s.Command
		if len(ssh) == 0 {
			ssh = []string{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"}
		}
		words = append(append(append([]string(nil), ssh...), host), words...)
	}
	words = append(words, reach...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(probe)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	answer := &bounded{b: &out, most: maxAnswer}
	cmd.Stdout, cmd.Stderr = answer, &bounded{b: &errs, most: 4 << 10}
	asked := time.Now()
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return Machine{}, lacking(words[0])
	}
	if err != nil {
		if ctx.Err() != nil {
			return Machine{}, fmt.Errorf("no answer: %w", context.Cause(ctx))
		}
		if text := strings.TrimSpace(errs.String()); text != "" {
			return Machine{}, errors.New(text)
		}
		return Machine{}, err
	}
	return parse(out.Bytes(), asked, answer.first)
}

// lacking is the error of a program missing on this machine.
type lacking string

func (name lacking) Error() string { return "no program " + string(name) + " on this machine" }

// bounded keeps the first bytes and drops the rest. It records the arrival of the first byte: a
// machine reports its clock first, and the rest takes a while.
type bounded struct {
	b     *bytes.Buffer
	most  int
	first time.Time
}

func (w *bounded) Write(p []byte) (int, error) {
	if w.first.IsZero() {
		w.first = time.Now()
	}
	if room := w.most + 1 - w.b.Len(); room > 0 {
		w.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
