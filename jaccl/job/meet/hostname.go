package meet

import "os"

// hostname returns the machine's name, which identifies the machine where nothing better
// does.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return name
}
