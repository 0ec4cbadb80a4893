package meet

import (
	"context"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/cutoff"
)

func TestCutOff(t *testing.T) {
	o := options(t, 2)[1]
	cutoff.Check(t, func(ctx context.Context) error { _, err := Join(ctx, o); return err })
}
