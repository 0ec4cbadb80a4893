package world

import (
	"flag"
	"time"

	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// DeadlineFlag defines the flag -deadline, for Config.Deadline. Its value is 0 if the flag
// is not given.
func DeadlineFlag(fs *flag.FlagSet) *time.Duration {
	d := new(time.Duration)
	fs.Func("deadline", "`time` that ranks wait for each other, such as 90s: for all to start, for progress, and for one that is stopped or cut off; GOMOE_DEADLINE or 30s if not given", func(s string) (err error) {
		*d, err = environ.ParseDeadline(s)
		return err
	})
	return d
}
