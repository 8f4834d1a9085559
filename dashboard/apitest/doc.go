// Package apitest tests the dashboard's API with a real API server as hub: who may read and do what is decided there.
package apitest
