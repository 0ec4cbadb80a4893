package whole

import "fmt"

// Own makes this process the only writer of a folder, until release is called or the
// process ends in any way. It is an error if another run owns the folder. On systems
// without such locks, such as Windows and some network file systems, everyone owns every
// folder.
func Own(folder string) (release func() error, err error) {
	release, taken, err := own(folder)
	if taken {
		return nil, fmt.Errorf("another run writes to %s; wait until it ends, or give another folder", folder)
	}
	return release, err
}
