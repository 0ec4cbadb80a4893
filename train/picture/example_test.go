package picture_test

import (
	"bytes"
	"fmt"
	"image/png"

	"github.com/gomoe/gomoe/train/picture"
	"github.com/gomoe/gomoe/train/report"
)

// A run of two steps as a picture.
func Example() {
	steps := []report.Step{{Index: 1, Total: 2, Loss: 5.5, Load: []float64{0.25, 0.75}}, {Index: 2, Total: 2, Loss: 4.5, Load: []float64{0.5, 0.5}}}
	var b bytes.Buffer
	if err := picture.Draw(&b, report.Figure{Title: "two steps", Steps: steps}); err != nil {
		fmt.Println(err)
		return
	}
	size, err := png.DecodeConfig(&b)
	fmt.Println(size.Width, size.Height, err)
	// Output: 1200 900 <nil>
}
