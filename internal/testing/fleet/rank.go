package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// The environment of a rank.
const (
	programVariable = "FLEET_PROGRAM"
	rankVariable    = "FLEET_RANK"
	sizeVariable    = "FLEET_SIZE"
	argsVariable    = "FLEET_ARGS"
	fromVariable    = "FLEET_RANK_FROM" // with a launcher: the name of the variable with the rank
	eventsVariable  = "FLEET_EVENTS"    // with a launcher: the folder of the pipes for the ranks' events
	// Marker names the test in the environment of all its processes.
	Marker = "FLEET_MARKER"
)

// process is the event in which a rank reports the number of its process.
const process = "process"

// Program is the program of a rank.
type Program func(r *Rank) error

// Rank is a rank's view of the fleet.
type Rank struct {
	Rank, Size int
	Args       map[string]string
	mu         sync.Mutex
	out        *os.File
}

// Event is a report of a rank to the test.
type Event struct {
	Name string            `json:"name"`
	At   time.Time         `json:"at"`
	Text string            `json:"text,omitempty"`
	More map[string]string `json:"more,omitempty"`
}

// Say reports an event to the test.
func (r *Rank) Say(name, text string, more map[string]string) {
	b, err := json.Marshal(Event{name, time.Now(), text, more})
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Write(append(b, '\n'))
}

// Main runs the rank's program and ends the process, if this process is a rank. Otherwise
// it returns. Tests call it first in TestMain.
func Main(programs map[string]Program) {
	name := os.Getenv(programVariable)
	if name == "" {
		return
	}
	r := &Rank{out: os.Stdout}
	var err error
	rank := rankVariable
	if from := os.Getenv(fromVariable); from != "" {
		rank = from
	}
	if r.Rank, err = strconv.Atoi(os.Getenv(rank)); err == nil {
		if r.Size, err = strconv.Atoi(os.Getenv(sizeVariable)); err == nil {
			err = json.Unmarshal([]byte(os.Getenv(argsVariable)), &r.Args)
		}
	}
	if dir := os.Getenv(eventsVariable); err == nil && dir != "" {
		r.out, err = os.OpenFile(filepath.Join(dir, strconv.Itoa(r.Rank)), os.O_WRONLY, 0)
	}
	if err == nil {
		r.Say(process, strconv.Itoa(os.Getpid()), nil)
		if p := programs[name]; p != nil {
			err = p(r)
		} else {
			err = fmt.Errorf("there is no program %q", name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
