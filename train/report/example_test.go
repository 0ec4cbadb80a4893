package report_test

import (
	"fmt"
	"os"
	"time"

	"github.com/gomoe/gomoe/train/report"
)

// A step's line in a log, and its row in a CSV file.
func Example() {
	progress := report.NewProgress(os.Stdout, report.ProgressOptions{Every: 1})
	metrics := report.NewMetrics(os.Stdout)
	step := report.Step{Index: 1, Total: 2, Loss: 5.5, LR: 0.001, Norm: 2, Tokens: 1000, Elapsed: time.Second, Load: []float64{0.25, 0.75}}
	for _, err := range []error{progress.Step(step), progress.Close(), metrics.Step(step), metrics.Close()} {
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// step 1/2  loss 5.5000 (5.5000)  1k tok/s  eta 1s  experts 25 75%  drops 0
	// step,loss,smoothed,held_out,aux,lr,grad_norm,tokens,seconds,tokens_per_second,drops,compute_seconds,exchange_seconds,waiting_seconds,expert_0,expert_1
	// 1,5.5,5.5,,0,0.001,2,1000,1,1000,0,0,0,0,0.25,0.75
}
