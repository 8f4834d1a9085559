package v1alpha1

import "strconv"

// Held says whether a person holds back what a FleetMiniCluster runs by AnnotationHold. A value that is neither true
// nor false counts as true: starting what was meant to be held back is the larger harm.
func (f *FleetMiniCluster) Held() bool {
	value := f.Annotations[AnnotationHold]
	held, err := strconv.ParseBool(value)
	return value != "" && (held || err != nil)
}

// Suspended says whether no new run is to start and live ones are to be suspended, by spec.suspend or by
// AnnotationHold.
func (f *FleetMiniCluster) Suspended() bool { return f.Spec.Suspend || f.Held() }
