package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// greeting is a peer's first line.
type greeting struct {
	Peer, Version, Failure string
}

// opening asks for opening a workload.
type opening struct {
	Op        string         `json:"op"`
	Workload  string         `json:"workload"`
	Dir       string         `json:"dir"`
	Params    map[string]any `json:"params"`
	Tolerance float64        `json:"tolerance"`
	Patience  float64        `json:"patience"` // seconds until gomoe stops waiting
}

// timing asks for timing one round.
type timing struct {
	Op      string  `json:"op"`
	Seconds float64 `json:"seconds"`
}

// closing ends a workload and makes the peer free its memory.
type closing struct {
	Op string `json:"op"`
}

// formulation is one way to compute a workload, and its outcome.
type formulation struct {
	Name    string  `json:"name"`
	Error   float64 `json:"error"`             // largest difference relative to the largest element
	NS      int64   `json:"ns,omitempty"`      // of the fastest run during the choice
	Failure string  `json:"failure,omitempty"` // the reason for rejecting it
}

// answer is a peer's line after an opening or a timing.
type answer struct {
	Formulations []formulation `json:"formulations"`
	Best         string        `json:"best"`
	Unsupported  bool          `json:"unsupported"`
	Failure      string        `json:"failure"`
	NS           []int64       `json:"ns"`
	Resident     int64         `json:"resident"` // bytes of its own held in memory by the peer; 0 if unknown
}

// child is a peer's process.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan line
	patient time.Duration // the timeout for an answer
	once    sync.Once
	exit    error // its exit status
	greeting
}

// wait waits for the child to end. Its stdout must be closed.
func (c *child) wait() error {
	c.once.Do(func() { c.exit = c.cmd.Wait() })
	return c.exit
}

type line struct {
	text []byte
	err  error
}

// crashed is the error of a peer ended by a signal.
type crashed struct{ signal os.Signal }

func (e *crashed) Error() string {
	if e.signal == syscall.SIGKILL {
		return "the peer was killed, as the system does when memory ends"
	}
	return "the peer crashed: " + e.signal.String()
}

// start runs a peer and reads its greeting. Its stderr is shown if verbose.
func start(cmd *exec.Cmd, patient time.Duration, verbose bool) (*child, error) {
	c := &child{cmd: cmd, lines: make(chan line), patient: patient}
	if verbose {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	if err := c.receive(&c.greeting); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	if c.Failure != "" {
		return nil, errors.Join(errors.New(c.Failure), c.kill())
	}
	return c, nil
}

// read reads lines until the child closes its stdout or nobody listens any more.
func (c *child) read(out io.Reader) {
	defer close(c.lines)
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes('\n')
		c.lines <- line{text, err}
		if err != nil {
			return
		}
	}
}

func (c *child) receive(to any) error {
	select {
	case l := <-c.lines:
		if l.err != nil {
			return c.ended(l.err)
		}
		return json.Unmarshal(l.text, to)
	case <-time.After(c.patient):
		return fmt.Errorf("bench: the peer has not answered for %v", c.patient)
	}
}

// ask sends a request and waits for the answer.
func (c *child) ask(request any) (answer, error) {
	var a answer
	text, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		return a, c.ended(err)
	}
	return a, c.receive(&a)
}

// ended returns the error of a child that has closed its stdin or stdout, after waiting for the child to end.
func (c *child) ended(why error) error {
	over := make(chan struct{})
	go func() {
		<-c.drained()
		c.wait() // its error is in the process state
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second): // continue without them
		return fmt.Errorf("bench: the peer ended: %w", why)
	}
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return &crashed{s.Signal()}
	}
	return fmt.Errorf("bench: the peer ended: %s", c.cmd.ProcessState)
}

// stop asks the child to end, and kills it if it does not.
func (c *child) stop() error {
	c.in.Close()
	select {
	case <-c.drained():
		return c.wait()
	case <-time.After(10 * time.Second):
		return c.kill()
	}
}

func (c *child) kill() error {
	c.in.Close()
	err := c.cmd.Process.Kill()
	<-c.drained()
	c.wait() // reports the signal just sent
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// drained is closed after the child closes its stdout.
func (c *child) drained() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for range c.lines {
		}
		close(done)
	}()
	return done
}
