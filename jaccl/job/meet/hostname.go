package meet

import "os"

// hostname returns the machine's name, by which errors name the rank. The name also
// identifies the machine where nothing better does.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return name
}
