package main

import (
	"bytes"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const adds = "program p(x f32[4]) {\n\ty = add(x, x)\n\treturn y\n}\n"

// A rank of a job is not a place for gomoe run: each rank would run the whole program, and
// all would write the same files.
func TestRunInJob(t *testing.T) {
	dir := t.TempDir()
	path, trace := filepath.Join(dir, "x.graph"), filepath.Join(dir, "t.json")
	require.NoError(t, os.WriteFile(path, []byte(adds), 0o600))
	for name, value := range map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1234"} {
		t.Setenv(name, value)
	}
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"run", path, "-random", "1", "-trace", trace}, nil, &out, &errs)
	if status != exitWrong || !strings.Contains(errs.String(), "this process is rank 1 of 2, as ") || !strings.Contains(errs.String(), "WORLD_SIZE") || out.Len() > 0 {
		t.Errorf("status %d, %q and %q", status, &out, &errs)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a trace is written")
	}
}

// A byte order mark in front of a program is no part of it.
func TestByteOrderMark(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"fmt", "-"}, strings.NewReader("\ufeff"+adds), &out, &errs)
	if status != exitOK || !strings.HasPrefix(out.String(), "program p(") {
		t.Errorf("status %d, %q and %q", status, &out, &errs)
	}
}

// Without -ssh, hosts are reached by the ssh in PATH.
func TestDoctorSSH(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("needs a script in PATH")
	}
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts.json")
	require.NoError(t, os.WriteFile(hosts, []byte(`[{"ssh": "far", "ips": ["10.0.0.1"]}]`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\necho \"asked: $*\" >&2\nexit 255\n"), 0o755))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"doctor", "-hostfile", hosts}, nil, &out, &errs)
	if status != exitWrong || !strings.Contains(out.String(), "asked: -o BatchMode=yes -o ConnectTimeout=5 far sh -s --") {
		t.Errorf("status %d, %q and %q", status, &out, &errs)
	}
}

// A transport that ranks would refuse is an error before they start.
func TestDoctorTransport(t *testing.T) {
	for name, wrong := range map[string]bool{"foo": true, "tcp": false} {
		t.Setenv("GOMOE_TRANSPORT", name)
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"doctor"}, nil, &out, &errs)
		if said := strings.Contains(out.String(), `GOMOE_TRANSPORT: gomoe: transport "foo", want one of auto`); said != wrong || wrong && status != exitWrong {
			t.Errorf("%s: status %d, %q and %q", name, status, &out, &errs)
		}
	}
}
