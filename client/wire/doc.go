// Package wire holds the types of the broker's interface, as its OpenAPI document names and describes them: the server
// publishes that document from these types, and clients read and write them.
package wire
