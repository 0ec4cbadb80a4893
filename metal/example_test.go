package metal_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/metal"
)

// Without an Apple GPU, Open says why there is none; nothing falls back by itself.
func ExampleOpen() {
	d, err := metal.Open(context.Background())
	switch {
	case errors.Is(err, metal.ErrNoMetal):
		fmt.Println("a GPU, or a reason for none")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("a GPU, or a reason for none")
		fmt.Println(d.Close())
	}
	// Output: a GPU, or a reason for none
}
