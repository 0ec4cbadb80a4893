// Everything is included before any source: see msl.h.
