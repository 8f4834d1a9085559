package gauges

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Source is what the gauges tell of a GitSource.
type Source struct {
	// Name is NAMESPACE/NAME.
	Name      string
	Ready     bool
	Reason    string // of the condition Ready
	Suspended bool
	Interval  time.Duration
	// Problems is how many there are in its files, Objects how many objects it has on the hub.
	Problems, Objects int
	// Prune and Runs are how many objects wait for approval to be deleted, and to be run anew; at most v1alpha1.MaxBlocked
	// are counted.
	Prune, Runs int
	// Read is when the repository was last read with success; zero where that is not known.
	Read time.Time
}

// waitingForFirst is the reason of a source that was not read yet.
const waitingForFirst = v1alpha1.ReasonProgressing

func (out *Fleet) addSources(in Input) {
	for i := range in.Sources {
		out.Sources = append(out.Sources, sourceOf(&in.Sources[i], in.Read))
	}
	slices.SortFunc(out.Sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(rankOf(&a), rankOf(&b)), strings.Compare(a.Name, b.Name))
	})
	if len(out.Sources) > MaxSources {
		out.OmittedSources = len(out.Sources) - MaxSources
		out.Sources = out.Sources[:MaxSources]
	}
}

// rankOf puts those first that need attention.
func rankOf(s *Source) int {
	if s.Ready && s.Prune+s.Runs == 0 {
		return 1
	}
	return 0
}

func sourceOf(s *v1alpha1.GitSource, read map[string]time.Time) Source {
	name := s.Namespace + "/" + s.Name
	out := Source{
		Name: name, Reason: waitingForFirst, Suspended: s.Spec.Suspend, Interval: s.Spec.Interval.Duration,
		Problems: int(s.Status.ProblemCount), Objects: int(s.Status.InventoryCount), Read: read[name],
	}
	is := func(condition string) bool { return meta.IsStatusConditionTrue(s.Status.Conditions, condition) }
	if is(v1alpha1.ConditionPruneBlocked) {
		out.Prune = max(len(s.Status.Prune), 1)
	}
	if is(v1alpha1.ConditionRunsBlocked) {
		out.Runs = max(len(s.Status.RunsAnew), 1)
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		out.Ready, out.Reason = ready.Status == metav1.ConditionTrue, ready.Reason
	}
	return out
}
