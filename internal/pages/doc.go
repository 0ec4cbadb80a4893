// Package pages asks the system for large pages of memory.
package pages
