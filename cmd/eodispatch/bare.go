package main

// Where the machine has no certificates or time zones, as in an image that holds nothing but the program, these are used.
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
