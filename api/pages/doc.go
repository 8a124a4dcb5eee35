// Package pages serves what browsers show: the page, the documentation of the interface, and the pages on which users
// sign in, link accounts and give permissions.
package pages
