// Package whole writes files that are complete or absent. A file gets its name when all
// of it is on the disk. Until then, and after an error, the name refers to the old file,
// if any. Begin with Write; Create is for files written over a long time.
package whole
