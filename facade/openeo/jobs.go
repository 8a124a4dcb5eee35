package openeo

// jobBroker keeps the jobs of users.
type jobBroker interface{}

// jobOperations returns the operations on jobs.
func (f *Facade) jobOperations() []operation { return nil }
