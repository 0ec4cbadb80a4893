package fleet

import (
	"encoding/json"
	"fmt"
	"os"
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
	// Marker names the test in the environment of all its processes.
	Marker = "FLEET_MARKER"
)

// Program is what a rank runs.
type Program func(r *Rank) error

// Rank is a rank's view of the fleet.
type Rank struct {
	Rank, Size int
	Args       map[string]string
	mu         sync.Mutex
}

// Event is what a rank says.
type Event struct {
	Name string            `json:"name"`
	At   time.Time         `json:"at"`
	Text string            `json:"text,omitempty"`
	More map[string]string `json:"more,omitempty"`
}

// Say tells the test something.
func (r *Rank) Say(name, text string, more map[string]string) {
	b, err := json.Marshal(Event{name, time.Now(), text, more})
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	os.Stdout.Write(append(b, '\n'))
}

// Main runs a rank's program and ends the process, if this process is a rank's. Tests
// call it first in TestMain, and go on if it returns.
func Main(programs map[string]Program) {
	name := os.Getenv(programVariable)
	if name == "" {
		return
	}
	r := &Rank{}
	var err error
	if r.Rank, err = strconv.Atoi(os.Getenv(rankVariable)); err == nil {
		if r.Size, err = strconv.Atoi(os.Getenv(sizeVariable)); err == nil {
			err = json.Unmarshal([]byte(os.Getenv(argsVariable)), &r.Args)
		}
	}
	if err == nil {
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
