//go:build !linux && !darwin

package shm

import (
	"context"
	"strings"
	"testing"
)

func TestConnect(t *testing.T) {
	l, err := Connect(context.Background(), nil, Options{})
	if l != nil || err == nil || !strings.Contains(err.Error(), "want linux or darwin") {
		t.Errorf("%v, %v, want an error that says so", l, err)
	}
}
