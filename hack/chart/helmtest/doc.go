// Package helmtest has the tests of the chart that run Helm 3 and Helm 4: by themselves, and against real API servers.
package helmtest
