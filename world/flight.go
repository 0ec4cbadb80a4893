package world

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/flight"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/watch"
	"github.com/gomoe/gomoe/jaccl/link"
)

// recording writes this rank's last operations to a file when the job fails, on request
// of another rank, and on a signal.
type recording struct {
	folder   flight.Folder // empty for none
	log      io.Writer
	about    flight.About
	mu       sync.Mutex
	recorder *flight.Recorder // nil before the ranks are connected
	watch    *watch.Watch     // nil if ranks have none
	stop     func()           // ends the signal's goroutine
}

func newRecording(cfg Config, job environ.Job) *recording {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	f := &recording{log: cfg.log(), about: flight.About{Job: job.ID, Rank: job.Rank, Size: job.Size, Host: host, PID: os.Getpid()}, stop: func() {}}
	switch path := cmp.Or(cfg.Flight, job.Flight); path {
	case "off":
	case "":
		f.folder = flight.Temporary("gomoe-" + uuid.NewString()) // of this rank alone, until ranks agree
	default:
		f.folder.Path = path
	}
	return f
}

// agree makes the ranks agree on a name for this run of the job. The name cannot be
// guessed, so nobody else can have created the folder before.
func (f *recording) agree(ctx context.Context, site link.Site) error {
	all, err := site.Gather(ctx, "gomoe: name of the run", []byte(uuid.NewString()))
	if err != nil {
		return err
	}
	run, err := uuid.ParseBytes(all[0])
	if err != nil {
		return fmt.Errorf("gomoe: rank 0 has named the run %s, want a UUID: %w", quoted.Text(all[0]), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.Run = run.String()
	if f.folder.Private {
		f.folder = flight.Temporary("gomoe-" + f.about.Run)
	}
	return nil
}

// watched gives the recording the watch connecting the ranks.
func (f *recording) watched(w *watch.Watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = w
	if w != nil && f.about.Size > 1 {
		f.about.Offset, f.about.Uncertain = w.Offset(0)
	}
}

// record returns c with its operations recorded from now on.
func (f *recording) record(c jaccl.Communicator, transport string) jaccl.Communicator {
	if f.folder.Path == "" {
		return c
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.about.Transport, f.about.Started = transport, time.Now()
	f.recorder = flight.New(f.about)
	f.recorder.OnFailure(func(err error) { f.write(fmt.Sprintf("failed: %v", err)) })
	f.stop = onDumpSignal(func() {
		f.write("signal")
		if f.watch != nil {
			f.watch.RequestDump()
		}
	})
	return f.recorder.Wrap(c)
}

// asked is called when another rank requests the record.
func (f *recording) asked(from int) { f.write(fmt.Sprintf("rank %d asked for it", from)) }

// write writes the file and logs its name.
func (f *recording) write(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recorder == nil {
		return
	}
	if f.watch != nil && f.about.Size > 1 { // the watch's estimate of the clock is better by now
		f.recorder.Clock(f.watch.Offset(0))
	}
	path, err := f.recorder.Take(why).Save(f.folder)
	if err != nil {
		fmt.Fprintf(f.log, "gomoe: rank %d: its last operations cannot be written: %v\n", f.about.Rank, err)
		return
	}
	fmt.Fprintf(f.log, "gomoe: rank %d: its last operations are in %s; gomoe trace flight %s compares the ranks'\n", f.about.Rank, path, filepath.Join(f.folder.Path, "*"))
}

// Clock returns the rank of this process, the offset from its clock to rank 0's, and the
// uncertainty of the offset. ok is false in a job of one process.
func (w *World) Clock() (rank int, offset, uncertain time.Duration, ok bool) {
	s, err := w.ready()
	if err != nil || s.flight == nil {
		return 0, 0, 0, false
	}
	offset, uncertain = s.flight.clock()
	return s.info.Rank, offset, uncertain, true
}

// clock returns the offset from this rank's clock to rank 0's, and its uncertainty.
func (f *recording) clock() (offset, uncertain time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch == nil || f.about.Size < 2 {
		return 0, 0
	}
	return f.watch.Offset(0)
}

// close ends the signal's goroutine. The recording writes nothing afterwards.
func (f *recording) close() error {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorder = nil
	return nil
}
