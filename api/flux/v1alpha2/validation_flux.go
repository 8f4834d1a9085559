package v1alpha2

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/flux/curve"
)

// Options of the brokers stand in shell words, so they are held to the characters that they need.
var (
	fluxDuration = regexp.MustCompile(`^[0-9]{1,20}(\.[0-9]{1,20})?(ms|s|m|h|d)?$`)
	fluxTopology = regexp.MustCompile(`^[A-Za-z0-9:._/+=,-]{1,253}$`)
	fluxWord     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
)

func validateFlux(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	f := &spec.Flux
	errs := validateFluxContainer(name, &f.Container, path.Child("container"))
	if !fluxDuration.MatchString(f.ConnectTimeout) {
		errs = append(errs, field.Invalid(path.Child("connectTimeout"), short(f.ConnectTimeout), "must be a duration as Flux writes it, such as 5s"))
	}
	if f.Topology != "" && !fluxTopology.MatchString(f.Topology) {
		errs = append(errs, field.Invalid(path.Child("topology"), short(f.Topology), "must be a topology as Flux writes it, such as kary:2"))
	}
	if !fluxWord.MatchString(f.Scheduler.QueuePolicy) {
		errs = append(errs, field.Invalid(path.Child("scheduler", "queuePolicy"), short(f.Scheduler.QueuePolicy), "must be a policy of Fluxion, such as fcfs or easy"))
	}
	if hasOpenQuote(f.OptionFlags) {
		errs = append(errs, field.Invalid(path.Child("optionFlags"), short(f.OptionFlags), "a quote is not closed: close it"))
	}
	if f.LogLevel < 0 || f.LogLevel > 7 {
		errs = append(errs, field.Invalid(path.Child("logLevel"), f.LogLevel, "must be from 1 (alert) to 7 (debug)"))
	}
	// It selects nodes by a label.
	errs = append(errs, invalid(path.Child("arch"), f.Arch, validation.IsValidLabelValue(f.Arch))...)
	errs = append(errs, validateCurveCert(f.CurveCert, path.Child("curveCert"))...)
	errs = append(errs, validateObjectName(f.MungeSecret, path.Child("mungeSecret"))...)
	if f.MungeSecret != "" && cleanPath(f.Container.MountPath) == mungePath {
		errs = append(errs, field.Invalid(path.Child("container", "mountPath"), f.Container.MountPath,
			"the key of flux.mungeSecret is there: choose another path"))
	}
	for _, variable := range slices.Sorted(maps.Keys(f.Environment)) {
		// These are exported by a shell, which knows no other names.
		errs = append(errs, invalid(key(path.Child("environment"), variable), variable, validation.IsCIdentifier(variable))...)
	}
	return append(errs, validateBursting(name, spec, path.Child("bursting"))...)
}

func validateFluxContainer(name string, c *FluxContainer, path *field.Path) field.ErrorList {
	errs := validateContainerName(c.Name, path.Child("name"))
	switch {
	case slices.Contains(reservedVolumes, c.Name):
		errs = append(errs, field.Invalid(path.Child("name"), short(c.Name), "names a volume of the pods: choose another"))
	case c.Name == name:
		e := field.Duplicate(path.Child("name"), short(c.Name))
		e.Detail = "the container that runs Flux is called as the MiniCluster is: choose another name for this one"
		errs = append(errs, e)
	}
	errs = append(errs, validateImage(c.Image, path.Child("image"))...)
	errs = append(errs, validateAbsolute(c.WorkingDir, path.Child("workingDir"))...)
	errs = append(errs, validateViewPath(c.MountPath, path.Child("mountPath"))...)
	errs = append(errs, validateResources(&c.Resources, path.Child("resources"))...)
	errs = append(errs, validateSecurityContext(&c.SecurityContext, path.Child("securityContext"))...)
	return append(errs, validateObjectName(c.ImagePullSecret, path.Child("imagePullSecret"))...)
}

// validateViewPath checks where the view and the brokers' files are mounted.
func validateViewPath(where string, path *field.Path) field.ErrorList {
	if errs := validateAbsolute(where, path); len(errs) > 0 {
		return errs
	}
	problem := unfitMount(where)
	switch clean := cleanPath(where); {
	case problem != "":
	case strings.Contains(where, ","):
		// Flux splits the options of its brokers at commas.
		problem = "must not contain a comma"
	case clean == scriptsPath, clean == homePath, clean == softwarePath:
		problem = "the pods have another mount there: choose another path"
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(path, short(where), problem)}
}

// validateCurveCert checks that brokers could read a certificate. It quotes nothing of it.
func validateCurveCert(cert string, path *field.Path) field.ErrorList {
	if cert == "" {
		return nil
	}
	if _, err := curve.Parse([]byte(cert)); err != nil {
		return field.ErrorList{&field.Error{
			Type: field.ErrorTypeInvalid, Field: path.String(), BadValue: field.OmitValueType{},
			Detail: err.Error() + "; paste what flux keygen writes, or remove it to have one made",
		}}
	}
	return nil
}

// hasOpenQuote says whether a quote in text, of either kind, is not closed.
func hasOpenQuote(text string) bool {
	var quote rune
	for _, c := range text {
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
	}
	return quote != 0
}

// hostlist is Flux's notation of names (RFC 29): NAME, NAME[RANGES] and more of them, separated by commas.
var hostlist = func() *regexp.Regexp {
	const (
		ranges = `\[[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*\]`
		host   = `[A-Za-z0-9._-]*(` + ranges + `[A-Za-z0-9._-]*)*`
	)
	return regexp.MustCompile(`^` + host + `(,` + host + `)*$`)
}()

// validateHostlist checks the names of all brokers.
func validateHostlist(list string, path *field.Path) field.ErrorList {
	const notation = "must list hosts as Flux writes them, such as a-[0-3],b: "
	for _, host := range splitHosts(list) {
		if host == "" {
			return field.ErrorList{field.Invalid(path, short(list), notation+"a name between commas is empty")}
		}
	}
	if !hostlist.MatchString(list) {
		return field.ErrorList{field.Invalid(path, short(list), notation+"without spaces or other characters")}
	}
	for _, bounds := range hostRange.FindAllStringSubmatch(list, -1) {
		first, err := strconv.ParseInt(bounds[1], 10, 32)
		last, err2 := strconv.ParseInt(bounds[2], 10, 32)
		if err != nil || err2 != nil || last < first || last-first >= maxSize {
			return field.ErrorList{field.Invalid(path, short(list), notation+short(bounds[0])+" is no range of hosts")}
		}
	}
	return nil
}

var hostRange = regexp.MustCompile(`([0-9]+)-([0-9]+)[],]`)

// splitHosts splits a hostlist at the commas that are not within brackets.
func splitHosts(list string) []string {
	var hosts []string
	depth, start := 0, 0
	for i, c := range list {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			hosts, start = append(hosts, list[start:i]), i+1
		}
	}
	return append(hosts, list[start:])
}

func validateBursting(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	b := &spec.Flux.Bursting
	var errs field.ErrorList
	if b.Hostlist != "" {
		errs = validateHostlist(b.Hostlist, path.Child("hostlist"))
		if len(b.Clusters) > 0 {
			errs = append(errs, field.Forbidden(path.Child("hostlist"), "hostlist and clusters exclude each other: choose one"))
		}
	}
	// Who leads: this cluster, or the one that it joins.
	first := name
	if b.LeadBroker != (FluxBroker{}) {
		first = b.LeadBroker.Name
		errs = append(errs, validateLeadBroker(&b.LeadBroker, path.Child("leadBroker"))...)
	}
	return append(errs, validateClusters(b.Clusters, first, path.Child("clusters"))...)
}

func validateLeadBroker(lead *FluxBroker, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case lead.Address == "":
		errs = append(errs, field.Required(path.Child("address"), "set the address that the lead broker can be reached at"))
	case !isAddress(lead.Address):
		errs = append(errs, field.Invalid(path.Child("address"), short(lead.Address), "must be an IP address or a hostname"))
	}
	if lead.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the MiniCluster that leads"))
	} else {
		errs = append(errs, invalid(path.Child("name"), lead.Name, validation.IsDNS1123Label(lead.Name))...)
	}
	if lead.Size < 1 {
		errs = append(errs, field.Invalid(path.Child("size"), lead.Size, "must be at least 1"))
	} else {
		errs = append(errs, atMost(lead.Size, path.Child("size"))...)
		errs = append(errs, validateHosts(lead.Name, lead.Size, path.Child("name"))...)
	}
	return append(errs, invalid(path.Child("port"), lead.Port, validation.IsValidPortNum(int(lead.Port)))...)
}

// isAddress says whether a text is an IP address, in brackets or not, or a hostname.
func isAddress(address string) bool {
	if len(validation.IsDNS1123Subdomain(strings.ToLower(address))) == 0 {
		return true
	}
	if inner, ok := strings.CutPrefix(address, "["); ok {
		address = strings.TrimSuffix(inner, "]")
	}
	return len(validation.IsValidIP(nil, address)) == 0
}

// validateClusters checks the clusters that are burst to; first is the one that has the first hosts.
func validateClusters(clusters []BurstedCluster, first string, path *field.Path) field.ErrorList {
	if len(clusters) > maxContainers {
		return field.ErrorList{field.TooMany(path, len(clusters), maxContainers)}
	}
	var errs field.ErrorList
	seen := map[string]bool{first: true}
	for i, cluster := range clusters {
		at := path.Index(i)
		errs = append(errs, invalid(at.Child("name"), cluster.Name, validation.IsDNS1123Label(cluster.Name))...)
		if seen[cluster.Name] {
			e := field.Duplicate(at.Child("name"), short(cluster.Name))
			e.Detail = "another cluster has hosts of this name: choose another"
			errs = append(errs, e)
		}
		seen[cluster.Name] = true
		if cluster.Size < 1 {
			errs = append(errs, field.Invalid(at.Child("size"), cluster.Size, "must be at least 1"))
			continue
		}
		errs = append(errs, atMost(cluster.Size, at.Child("size"))...)
		errs = append(errs, validateHosts(cluster.Name, cluster.Size, at.Child("name"))...)
	}
	return errs
}
