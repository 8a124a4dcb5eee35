// Package limits bounds what clients do: how often they send requests, how many are served at once, and how much memory
// they take.
package limits
