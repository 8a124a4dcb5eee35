//go:build !race

package detector

// On reports whether this program is compiled with the race detector.
const On = false
