package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/gomoe/gomoe/internal/whole"
)

// benchOutput writes the rows of a measurement: to standard output, as text or, with -json -, as
// JSON, and to files.
type benchOutput struct {
	stdout      io.Writer
	header      string
	begun       bool
	json, plot  string // flags
	rows, image *whole.File
}

func (o *benchOutput) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.json, "json", "", "`file` for the rows, one JSON object per line; - is standard output, and prints nothing else")
	fs.StringVar(&o.plot, "plot", "", "`file` for a plot, a PNG")
}

// open creates the files before measuring, so that an unwritable path fails early. The caller must
// call close.
func (o *benchOutput) open() (err error) {
	if o.json != "" && o.json != "-" {
		if o.rows, err = whole.Create(o.json); err != nil {
			return fmt.Errorf("-json: %w", err)
		}
	}
	if o.plot != "" {
		if err := whole.Apart(o.plot, o.json); err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
		if o.image, err = whole.Create(o.plot); err != nil {
			return fmt.Errorf("-plot: %w", err)
		}
	}
	return nil
}

// print prints a row, preceded by the header if it is the first.
func (o *benchOutput) print(row interface{ JSON(io.Writer) error }) error {
	if o.json == "-" {
		return row.JSON(o.stdout)
	}
	if !o.begun {
		o.begun = true
		fmt.Fprintln(o.stdout, o.header)
	}
	_, err := fmt.Fprintln(o.stdout, row)
	return err
}

// save writes the files.
func (o *benchOutput) save(json, plot func(io.Writer) error) error {
	for _, f := range []struct {
		flag  string
		file  *whole.File
		write func(io.Writer) error
	}{{"-json", o.rows, json}, {"-plot", o.image, plot}} {
		if f.file == nil {
			continue
		}
		if err := f.write(f.file); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
	}
	return nil
}

// close drops files that were not saved.
func (o *benchOutput) close() {
	for _, f := range []*whole.File{o.rows, o.image} {
		if f != nil {
			f.Discard()
		}
	}
}

// jsonRows writes rows as JSON, one per line.
func jsonRows[R interface{ JSON(io.Writer) error }](w io.Writer, rows []R) error {
	for _, r := range rows {
		if err := r.JSON(w); err != nil {
			return err
		}
	}
	return nil
}
