// Package deploy tests what administrators do with make: install, run, deploy, samples, undeploy and uninstall, against real
// API servers, with the image that `make image` makes and the Deployment's own pod spec.
package deploy
