// Package openapi publishes the document of the interface, and enforces it: operations are registered with the
// document, and the bodies and queries of their requests are validated by it.
//
// Bodies are read by this package and not by huma, because the answer to a bad one is part of the contract: every fault
// at once, each at its own place, and nothing of the parameters changed by a digit.
package openapi
