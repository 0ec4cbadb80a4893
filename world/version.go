package world

import "runtime/debug"

// version is which gomoe this program is built with: its release, or, where it is built
// from a checkout, the revision.
func version() string {
	const path = "github.com/gomoe/gomoe"
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range b.Deps {
		if d.Path != path {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		return d.Version + " " + d.Sum
	}
	v := b.Main.Version
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			v += " " + s.Key + "=" + s.Value
		}
	}
	return v
}
