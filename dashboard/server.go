// Package dashboard serves the fleet to people and programs: a REST API with a stream of changes, and the page.
package dashboard

// Server answers the dashboard's requests.
type Server struct{}
