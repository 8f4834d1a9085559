// Package alertmanager tests the alerts of Notifications with Alertmanager's own API. It is a module of its own, since that brings
// in hundreds of packages.
package alertmanager
