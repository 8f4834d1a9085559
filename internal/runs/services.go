package runs

import "github.com/minifleet/minifleet/api/v1alpha1"

// Services says what is to become of the pod of services beside a run.
type Services string

// Values of Services.
const (
	// ServicesOn: the run is live, and its services are to run.
	ServicesOn Services = "On"
	// ServicesKept: the run is about to start or cannot be judged; a pod that is there stays.
	ServicesKept Services = "Kept"
	// ServicesOff: no run is live, or it is suspended; no pod is to be there.
	ServicesOff Services = "Off"
)

// ServicesDue decides about the services beside the latest run on a member, whose Job is job, if any.
func ServicesDue(last *v1alpha1.Run, job *Job) Services {
	switch {
	case last == nil || last.State.Ended():
		return ServicesOff
	case last.State == v1alpha1.RunStarting && last.JobUID == "" || job == nil:
		return ServicesKept // what they are for is about to be created, or its end is about to be recorded
	case job.RunID != last.ID || job.Finished || job.Deleting || job.Suspended:
		return ServicesOff
	default:
		return ServicesOn
	}
}
