package meet

import "os"

// hostname returns the machine's name, which errors show with the rank. It also
// identifies the machine if there is nothing better.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return name
}
