package whole

import "fmt"

// Own makes this process the only one that writes to a folder, until release is called or the process ends, however it
// ends. It is an error if another run owns the folder. Where the system has no such locks, as on Windows and on some network file
// systems, everyone owns every folder.
func Own(folder string) (release func() error, err error) {
	release, taken, err := own(folder)
	if taken {
		return nil, fmt.Errorf("another run writes to %s; wait until it ends, or give another folder", folder)
	}
	return release, err
}
