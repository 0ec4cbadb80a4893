package meet

import "os"

// hostname stands for the machine where nothing better is known of it.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return name
}
