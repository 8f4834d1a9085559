package actions

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Member is the outcome of an action on a MemberCluster.
type Member = Outcome[*v1alpha1.MemberCluster]

func editMember(ctx context.Context, c client.Client, name string, o Options, change func(*v1alpha1.MemberCluster) (string, error)) (Member, error) {
	return edit(ctx, c, func() *v1alpha1.MemberCluster { return &v1alpha1.MemberCluster{} }, client.ObjectKey{Name: name}, o, change)
}

// Drain has the live runs on a member stopped, and started elsewhere where their placement allows it. No new run begins
// there.
func Drain(ctx context.Context, c client.Client, name string, o Options) (Member, error) {
	return editMember(ctx, c, name, o, func(m *v1alpha1.MemberCluster) (string, error) {
		if draining, _ := m.Draining(); draining == "" {
			annotate(m, v1alpha1.AnnotationDrain, "true")
		}
		return "", nil
	})
}

// Cordon keeps new runs away from a member; what runs there goes on.
func Cordon(ctx context.Context, c client.Client, name string, o Options) (Member, error) {
	return editMember(ctx, c, name, o, func(m *v1alpha1.MemberCluster) (string, error) {
		m.Spec.Suspend = true
		return "", nil
	})
}

// Uncordon takes away what Drain and Cordon have set.
func Uncordon(ctx context.Context, c client.Client, name string, o Options) (Member, error) {
	return editMember(ctx, c, name, o, func(m *v1alpha1.MemberCluster) (string, error) {
		if err := notDeleting(m); err != nil {
			return "", err
		}
		dropAnnotation(m, v1alpha1.AnnotationDrain)
		m.Spec.Suspend = false
		return "", nil
	})
}

// MemberGone declares of a member that cannot be asked that nothing runs there any more which began before a time, not
// after now. A person has to have made sure of that: what the runs were for starts elsewhere.
func MemberGone(ctx context.Context, c client.Client, name string, at, now time.Time, o Options) (Member, error) {
	return editMember(ctx, c, name, o, func(m *v1alpha1.MemberCluster) (string, error) {
		stored := at.UTC().Truncate(time.Second) // as times of the API are
		if err := checkMemberGone(m, stored, now); err != nil {
			return "", err
		}
		annotate(m, v1alpha1.AnnotationMemberGone, stored.Format(time.RFC3339))
		return "", nil
	})
}

func checkMemberGone(m *v1alpha1.MemberCluster, at, now time.Time) error {
	heard := m.Status.LastHeardTime
	switch {
	case at.After(now):
		return &Error{
			Kind: Invalid, Field: "time", Message: at.Format(time.RFC3339) + " is yet to come",
			Remedy: "use a time until which it is known that nothing runs there",
		}
	case meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady):
		return &Error{
			Kind: Invalid, Field: "status.conditions[Ready]", Message: "is True: the member is heard from, and says itself what runs there",
			Remedy: "drain it instead",
		}
	case heard == nil:
		return &Error{
			Kind: Conflict, Field: "status.lastHeardTime", Message: "is not known yet, and without it the hub does not believe a declaration",
			Remedy: "wait until MiniFleet says since when the member is silent",
		}
	case heard.After(at):
		return &Error{
			Kind: Invalid, Field: "time", Message: at.Format(time.RFC3339) + " is before the last answer of the member, at " + heard.UTC().Format(time.RFC3339),
			Remedy: "use a later time, if it is still true then",
		}
	}
	return nil
}
