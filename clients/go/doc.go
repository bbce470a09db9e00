// Package evenkeel is the client of Evenkeel, a service that decides where pods may and should
// run so that they stay evenly spread.
//
// [Dial] connects to one server or several. A [Client] has the calls of the service, which
// are described in the package evenkeelv1. A [Feed] keeps a snapshot of a server equal to what a
// program knows. A [Decider] asks many questions over one stream.
package evenkeel
