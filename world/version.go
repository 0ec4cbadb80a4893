package world

import "runtime/debug"

// version returns the version of gomoe in this program: the release, or the revision if
// it was built from a checkout.
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
