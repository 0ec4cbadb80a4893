package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/train/report"
)

// Figures configures the reports of a Loop. The zero Figures writes none.
type Figures struct {
	Progress func(report.Step) error // called after each step in the first process, such as the Step of a report.Progress
	// Earlier, if not nil, is called in the first process with each step of earlier runs, before the first step of
	// this run, such as the Earlier of a report.Progress.
	Earlier func(report.Step)
	// Folder is an existing folder for metrics.csv and training.png; "" writes neither.
	Folder string
	// Draw draws training.png when the run ends, such as picture.Draw; nil draws none.
	Draw  func(io.Writer, report.Figure) error
	Title string // of the picture
	// Listen, if not nil, accepts requests from Prometheus in the first process while the loop runs, on any path; see
	// report.Exporter. The loop closes it, in every process.
	Listen net.Listener
	// Entropy is drawn as a reference line: the entropy of the text's bytes, in nats. 0 draws none.
	Entropy float64
}

// outputs holds the open outputs of a running Loop.
type outputs struct {
	Figures
	metrics *report.Metrics // nil if not written
	first   bool

	exporter *report.Exporter // nil if not serving
	server   *http.Server
	served   chan struct{} // closed when serving has ended
}

// serve starts serving the steps.
func (o *outputs) serve() {
	if o.Listen == nil || !o.first {
		return
	}
	o.exporter, o.served = report.NewExporter(), make(chan struct{})
	o.server = &http.Server{Handler: o.exporter, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(o.served)
		o.server.Serve(o.Listen) // until Close
	}()
}

// PictureName is the file of the picture of a run in Figures.Folder.
const PictureName = "training.png"

// open opens metrics.csv, checks that no folder has the picture's name, and adds the steps of earlier runs to the
// history.
func (f Figures) open(first bool, done, total int, h *report.History) (*outputs, error) {
	o := &outputs{Figures: f, first: first}
	if !first || f.Folder == "" {
		return o, nil
	}
	picture := filepath.Join(f.Folder, PictureName)
	if info, err := os.Stat(picture); f.Draw != nil && err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, and the picture is written there; remove it, or give another folder", picture)
	}
	path := filepath.Join(f.Folder, report.MetricsName)
	var err error
	if done == 0 {
		o.metrics, err = report.CreateMetrics(path)
		return o, err
	}
	var rows []report.Step
	if o.metrics, rows, err = report.ResumeMetrics(path, done); err != nil {
		return nil, err
	}
	for _, row := range rows {
		row.Total = total
		h.Add(row)
		if f.Earlier != nil {
			f.Earlier(row)
		}
	}
	return o, nil
}

func (o *outputs) step(s report.Step) error {
	var errs []error
	if o.exporter != nil {
		o.exporter.Step(s)
	}
	if o.first && o.Progress != nil {
		errs = append(errs, o.Progress(s))
	}
	if o.metrics != nil {
		errs = append(errs, o.metrics.Step(s))
	}
	return errors.Join(errs...)
}

// sync returns a function that flushes the rows written so far to disk. The function may run concurrently with
// steps.
func (o *outputs) sync() func() error {
	if o.metrics == nil {
		return nil
	}
	return func() error { return whole.Sync(filepath.Join(o.Folder, report.MetricsName)) }
}

func (o *outputs) close() error {
	var err error
	if o.server != nil {
		err = o.server.Close()
		<-o.served
	}
	if o.metrics != nil {
		err = errors.Join(o.metrics.Close(), err)
	}
	return err
}

// draw writes a picture of all steps.
func (o *outputs) draw(h *report.History) error {
	if !o.first || o.Folder == "" || o.Draw == nil || h.Count == 0 {
		return nil
	}
	var picture bytes.Buffer // drawing takes a while, and must not leave an unfinished file
	if err := o.Draw(&picture, report.Figure{Title: o.Title, Steps: h.Points(), Unigram: o.Entropy}); err != nil {
		return err
	}
	return whole.Write(filepath.Join(o.Folder, PictureName), func(w io.Writer) error { _, err := picture.WriteTo(w); return err })
}
