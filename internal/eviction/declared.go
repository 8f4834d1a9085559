package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Declared says how a person has declared a live run gone: by its id in the FleetMiniCluster's annotation run-gone, or
// by the annotation member-gone of its member, which is nil where there is none of that name. It is empty where nobody
// has. It counts only while the member cannot be asked, which is for the caller to see to.
func Declared(run *v1alpha1.Run, ids []string, member *v1alpha1.MemberCluster, now time.Time) string {
	if slices.Contains(ids, run.ID) {
		return "annotation " + v1alpha1.AnnotationRunGone
	}
	if member == nil || run.StartTime == nil || !GoneSince(run.StartTime.Time, member, now) {
		return ""
	}
	return "annotation " + v1alpha1.AnnotationMemberGone + " of MemberCluster " + member.Name
}

// clockSkew is how far in the future a person's time may lie, for clocks that differ.
const clockSkew = time.Minute

// GoneSince says whether a member was declared gone with all that has begun there until some time. That holds for a
// member that has not been heard of since the time that is said: once it returns, the annotation means nothing for the
// next time that it is lost.
func GoneSince(begun time.Time, m *v1alpha1.MemberCluster, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, m.Annotations[v1alpha1.AnnotationMemberGone])
	if err != nil || at.After(now.Add(clockSkew)) {
		return false
	}
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || m.Status.LastHeardTime == nil || m.Status.LastHeardTime.After(at) {
		return false
	}
	return !begun.After(at)
}
