// Package podhealth says why the pods of a Job are not ready, or how they have failed. Pods, as they are listed page by
// page, and events come in; out goes the one issue that is worst, or the exit that came first. It is pure: its caller
// lists what there is on the member.
package podhealth
