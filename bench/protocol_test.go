package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script runs sh as a peer that says what it is told.
func script(t *testing.T, text string, patient time.Duration) (*child, error) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh to play the peer (Debian: apt-get install dash)")
	}
	return start(exec.Command(sh, "-c", text), patient, false)
}

const greet = `echo '{"peer":"p","version":"1.2"}';`

func TestProtocol(t *testing.T) {
	c, err := script(t, greet+`read a; echo '{"formulations":[{"name":"x","error":1e-7,"ns":5}],"best":"x"}'; read b; echo '{"ns":[3,4]}'; read end || exit 0; exit 9`, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "1.2", c.Version)
	a, err := c.ask(opening{Op: "open", Workload: "w"})
	require.NoError(t, err)
	require.Equal(t, answer{Formulations: []formulation{{Name: "x", Error: 1e-7, NS: 5}}, Best: "x"}, a)
	a, err = c.ask(timing{"time", 1})
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4}, a.NS)
	require.NoError(t, c.stop(), "a peer ends when its stdin does")
}

func TestProtocolFailures(t *testing.T) {
	_, err := script(t, "exit 3", time.Minute)
	require.ErrorContains(t, err, "the peer ended")
	_, err = script(t, `echo '{"failure":"no such device"}'; read a`, time.Minute)
	require.ErrorContains(t, err, "no such device")
	_, err = script(t, "echo hello; read a", time.Minute)
	require.ErrorContains(t, err, "invalid character")

	c, err := script(t, greet+"read a; exit 0", time.Minute)
	require.NoError(t, err)
	_, err = c.ask(timing{"time", 1})
	require.ErrorContains(t, err, "the peer ended")
	require.NoError(t, c.stop())

	c, err = script(t, greet+"while read a; do :; done", 20*time.Millisecond)
	if err != nil { // the greeting itself took longer
		require.ErrorContains(t, err, "has not answered for 20ms")
		return
	}
	_, err = c.ask(timing{"time", 1})
	require.ErrorContains(t, err, "has not answered for 20ms")
	require.NoError(t, c.kill())
}

// crewOf is a crew of one peer that runs a script, and fails if started twice.
func crewOf(t *testing.T, text string) *crew {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh to play the peer (Debian: apt-get install dash)")
	}
	c := newCrew(t.TempDir(), time.Minute, false)
	started := false
	c.peers = map[string]peer{"p": {name: "p", command: func(dir string, threads int) (*exec.Cmd, error) {
		if started {
			t.Error("the peer is started twice")
		}
		started = true
		cmd := exec.Command(sh, "-c", text)
		cmd.Env = environment(threads)
		return cmd, nil
	}}}
	return c
}

// A measurement with a peer that answers: rounds alternate, the formulation and
// its error are in the row.
func TestMeasure(t *testing.T) {
	crew := crewOf(t, greet+`while read line; do case $line in
		*open*) echo '{"formulations":[{"name":"slow","ns":9},{"name":"fast","error":0.25,"ns":5}],"best":"fast"}';;
		*) echo '{"ns":[1000000000000]}';; esac; done`)
	dir := t.TempDir()
	b := &bench{crew: crew, rounds: 3, seconds: 1e-4, dir: dir, log: t.Logf}
	w := scalarWorkloads()[0]
	w.peers = []string{"p"}
	for range 2 {
		rows, err := b.run(w, 1)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		r := rows[0]
		require.Empty(t, r.Note)
		require.Equal(t, "fast", r.Formulation)
		require.Equal(t, 0.25, r.Error)
		require.Equal(t, times{1e12, 1e12}, r.Other)
		if r.Gomoe.Median <= 0 || r.Ratio <= 0 || r.Ratio > 0.1 {
			t.Errorf("gomoe %+v, ratio %g, want above 0 and less than a tenth", r.Gomoe, r.Ratio)
		}
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "arrays of a workload that is done")
	require.NoError(t, crew.dismiss())
}

// What goes wrong with a peer is a note of its row.
func TestMeasureNotes(t *testing.T) {
	for _, c := range []struct{ answer, note string }{
		{`{"unsupported":true}`, "cannot compute this"},
		{`{"failure":"no formulation runs and agrees"}`, "no formulation runs and agrees"},
		{`{"formulations":[],"best":"x"}`, "the peer named no formulation"},
	} {
		crew := crewOf(t, greet+"while read line; do echo '"+c.answer+"'; done")
		w := scalarWorkloads()[0]
		w.peers = []string{"p"}
		rows, err := (&bench{crew: crew, rounds: 1, seconds: 1e-4, dir: t.TempDir(), log: t.Logf}).run(w, 1)
		require.NoError(t, err)
		if rows[0].Note != c.note || rows[0].Ratio != 0 {
			t.Errorf("after %s the row says %q with ratio %g, want %q and none", c.answer, rows[0].Note, rows[0].Ratio, c.note)
		}
		require.NoError(t, crew.dismiss())
	}
}

// A peer gets its threads, and is not held back by what the machine sets.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENBLAS_CORETYPE", "Haswell")
	t.Setenv("OMP_NUM_THREADS", "7")
	t.Setenv("OMP_WAIT_POLICY", "passive")
	last := map[string]string{} // the last one counts
	for _, v := range environment(3) {
		name, value, _ := strings.Cut(v, "=")
		last[name] = value
	}
	require.Equal(t, "3", last["OMP_NUM_THREADS"])
	require.Equal(t, "3", last["PJRT_NPROC"])
	require.Equal(t, "passive", last["OMP_WAIT_POLICY"])
	require.NotContains(t, last, "OPENBLAS_CORETYPE")
}

// A peer that ends in a workload is started again for the next.
func TestLostPeer(t *testing.T) {
	crew := crewOf(t, greet+"read line; exit 0")
	again := crew.peers["p"]
	w := scalarWorkloads()[0]
	w.peers = []string{"p"}
	for range 2 {
		rows, err := (&bench{crew: crew, rounds: 1, seconds: 1e-4, dir: t.TempDir(), log: t.Logf}).run(w, 1)
		require.NoError(t, err)
		require.Contains(t, rows[0].Note, "the peer ended")
		require.Empty(t, crew.running)
		again.command = crewOf(t, greet+"read line; exit 0").peers["p"].command // which allows one start
		crew.peers["p"] = again
	}
	require.NoError(t, crew.dismiss())
}
