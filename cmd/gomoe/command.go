package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/interrupt"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/world"
)

// Exit statuses. gomoe launch also returns the exit statuses of its ranks, and a rank that does not fit the
// size of its job returns world.StatusMisfit. A command ended by a signal returns the signal's status.
const (
	exitOK    = 0
	exitWrong = 1
	exitUsage = 2
)

// tool is one invocation of the command.
type tool struct {
	stdin  io.Reader
	stdout *whole.Output
	stderr io.Writer
	help   bytes.Buffer // output of flag sets
}

// usageError is an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errReported ends the command with status 1 when its output has already given the reason.
var errReported = errors.New("reported")

// run runs the command line and returns the exit status, stopping when ctx ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stderr = &escaping{stderr}
	t := &tool{stdin: stdin, stdout: &whole.Output{To: stdout}, stderr: stderr}
	root := t.root()
	name := "gomoe"
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(stderr, "%s: internal error, a bug in gomoe: %v\n%s", name, r, debug.Stack())
			code = exitWrong
		}
	}()
	err := root.Parse(args)
	command := root
	for _, arg := range args { // subcommands precede flags
		i := slices.IndexFunc(command.Subcommands, func(c *ffcli.Command) bool { return strings.EqualFold(arg, c.Name) })
		if i < 0 {
			break
		}
		if command = command.Subcommands[i]; name == "gomoe" {
			name += " " + command.Name
		}
	}
	if err != nil {
		err = wrongFlag(command.FlagSet, err)
	}
	if err == nil {
		err = root.Run(ctx)
	}
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.Copy(t.stdout, &t.help)
	}
	if err == nil && t.stdout.Err != nil {
		err = fmt.Errorf("standard output: %w", t.stdout.Err)
	}
	var usage *usageError
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s\nRun %q for the command's flags.\n", name, quoted.Message(err.Error()), "gomoe help"+strings.TrimPrefix(name, "gomoe"))
		return exitUsage
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errReported):
		return exitWrong
	case errors.Is(err, context.Canceled):
		text := "interrupted"
		if training := (*lm.InterruptedError)(nil); errors.As(err, &training) {
			text = training.Error()
		}
		if stop := (*generate.StopError)(nil); errors.As(err, &stop) {
			text += ": " + stop.Error()
		}
		fmt.Fprintf(stderr, "%s: %s\n", name, quoted.Message(text))
		return interrupt.Status(ctx, err, exitWrong)
	}
	var file *located
	var line *graph.Error
	var kernel *runtime.Error
	var collective *jaccl.Error
	var at graph.Pos
	switch {
	case errors.As(err, &file): // the error begins with the program's file
	case errors.As(err, &line):
		at = line.Pos
	case errors.As(err, &kernel):
		at = kernel.Pos
	case errors.As(err, &collective):
		at = collective.Call.Pos
	}
	text, own := err.Error(), strings.HasSuffix(at.File, ".go")
	if own { // gomoe's code means nothing to the command's user; the part of the model does
		text = quoted.Scoped(text)
	}
	if file == nil && (line == nil || own) {
		fmt.Fprintf(stderr, "%s: ", name)
	}
	fmt.Fprintln(stderr, quoted.Message(text))
	return world.Status(err)
}

func (t *tool) root() *ffcli.Command {
	root := &ffcli.Command{
		Name:       "gomoe",
		ShortUsage: "gomoe COMMAND [flags] [FILE]",
		LongHelp:   "Trains, writes with, serves and converts models, and works on programs in their\ntext form. FILE is a program, - for standard input; flags may stand before or\nbehind it. \"gomoe doc\" prints the language and its primitives.",
		FlagSet:    t.flags("gomoe"),
		Subcommands: []*ffcli.Command{
			t.runCommand(), t.gradCommand(), t.placeCommand(), t.planCommand(), t.checkCommand(),
			t.fmtCommand(), t.docCommand(), t.kernelsCommand(), t.inspectCommand(), t.convertCommand(), t.quantizeCommand(), t.trainCommand(), t.finetuneCommand(), t.generateCommand(), t.evalCommand(), t.chatCommand(), t.serveCommand(), t.launchCommand(), t.doctorCommand(), t.benchCommand(), t.traceCommand(), t.versionCommand(),
		},
	}
	root.Subcommands = append(root.Subcommands, t.helpCommand(root))
	root.Exec = func(_ context.Context, args []string) error {
		var names []string
		for _, c := range root.Subcommands {
			names = append(names, c.Name)
		}
		if len(args) == 0 {
			return usagef("no command, want one of %s", strings.Join(names, " "))
		}
		return usagef("there is no command %s, want one of %s%s", quoted.Text(args[0]), strings.Join(names, " "), near.Names(args[0], slices.Values(names)))
	}
	return root
}

// escaping writes text, quoting control characters other than newlines and tabs as Go does: names in files
// and on command lines must not control a terminal.
type escaping struct{ to io.Writer }

func (q *escaping) Write(p []byte) (int, error) {
	var b []byte
	for i, c := range p {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			if b == nil {
				b = append(b, p[:i]...)
			}
			b = fmt.Appendf(b, "\\x%02x", c)
		} else if b != nil {
			b = append(b, c)
		}
	}
	if b == nil {
		return q.to.Write(p)
	}
	if _, err := q.to.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flags returns a flag set that returns mistakes as errors instead of printing them.
func (t *tool) flags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(&t.help)
	return fs
}

// wrongFlag returns an error of a flag set as a usageError. For a value that it cannot parse, the flag
// package says only "parse error"; wrongFlag names the expected values.
func wrongFlag(fs *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := strings.TrimPrefix(err.Error(), "error parsing commandline arguments: ")
	if m := regexp.MustCompile(`^(invalid .*value .* for (?:flag )?-([^ :]+)): parse error$`).FindStringSubmatch(text); m != nil {
		if f := fs.Lookup(m[2]); f != nil {
			text = m[1] + ": want " + wantedOf(f)
		}
	}
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: "); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
		text = "there is no flag " + name + near.Names(name, slices.Values(names))
		if name == "-version" {
			text += "; the command version prints it"
		}
	}
	return &usageError{errors.New(text)}
}

// wantedOf describes the values of a flag whose type is the flag package's.
func wantedOf(f *flag.Flag) string {
	g, ok := f.Value.(flag.Getter)
	if !ok {
		return "another value"
	}
	switch g.Get().(type) {
	case int, int64:
		return "an integer"
	case uint, uint64:
		return "an integer of at least 0"
	case float64:
		return "a number"
	case time.Duration:
		return "a time such as 500ms or 2s"
	case bool:
		return "true or false"
	}
	return "another value"
}

// operands returns the arguments that are not flags. Flags may precede and follow them.
func operands(fs *flag.FlagSet, args []string) ([]string, error) {
	var out []string
	for len(args) > 0 {
		out = append(out, args[0])
		if err := fs.Parse(args[1:]); err != nil {
			return nil, wrongFlag(fs, err)
		}
		args = fs.Args()
	}
	if slices.Contains(out, "") {
		return nil, usagef("a path is empty, want the name of a file or a folder")
	}
	return out, nil
}

// onePath is operands for commands taking one path; want describes the path.
func onePath(fs *flag.FlagSet, args []string, want string) (string, error) {
	paths, err := operands(fs, args)
	if err == nil && len(paths) != 1 {
		err = usagef("%d paths %s, want one: %s", len(paths), quoted.List(paths), want)
	}
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// read returns the path of an operand for comparing it with outputs: that of standard input for -.
func read(path string) string {
	if path == "-" {
		return "/dev/stdin"
	}
	return path
}

// filesOf returns the files of models and adapters, given as files or folders, for comparing them with outputs.
func filesOf(paths ...string) []string {
	files := slices.Clone(paths)
	for _, path := range paths {
		entries, _ := os.ReadDir(path) // none of a file
		for _, e := range entries {
			if slices.Contains([]string{".json", ".safetensors", ".jinja", ".model", ".txt"}, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
	}
	return files
}

// operand is operands for commands taking one file.
func operand(fs *flag.FlagSet, args []string) (string, error) {
	files, err := operands(fs, args)
	switch {
	case err != nil:
		return "", err
	case len(files) == 0:
		return "", usagef("no file, want the program's file, or - for standard input")
	case len(files) > 1:
		return "", usagef("%d files %s, want one", len(files), quoted.List(files))
	}
	return files[0], nil
}
