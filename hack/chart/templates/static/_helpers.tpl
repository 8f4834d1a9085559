{{- /* Labels that every object has. */ -}}
{{- define "minifleet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/name: minifleet
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{- /* The image: by digest where one is given, since a tag can be moved. */ -}}
{{- define "minifleet.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Whether the cluster serves admission policies. A cluster lists the kinds that it serves; without a cluster, as in
helm template, no kinds are listed, and the version that was given (or Helm's own) says it. */ -}}
{{- define "minifleet.hasPolicies" -}}
{{- $kinds := .Capabilities.APIVersions -}}
{{- if or ($kinds.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
  (and (not ($kinds.Has "v1/Pod")) (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}
true
{{- end -}}
{{- end -}}

{{- /* GOMEMLIMIT: what the values say, else a share of the limit of memory; empty without one. */ -}}
{{- define "minifleet.gomemlimit" -}}
{{- if .Values.gomemlimit -}}
{{ .Values.gomemlimit }}
{{- else -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) | toString -}}
{{- if $limit -}}
{{- $number := regexFind "^[0-9.]+(e[+]?[0-9]+)?" $limit -}}
{{- $unit := trimPrefix $number $limit -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if not (and $number (hasKey $units $unit)) -}}
{{- fail (printf "resources.limits.memory: %q is no amount of memory such as 512Mi or 2Gi" $limit) -}}
{{- end -}}
{{- $bytes := mulf (float64 $number) (get $units $unit) -}}
{{ printf "%dMiB" (int64 (floor (divf (mulf (divf $bytes 1048576) @GO_MEMORY@) @MEMORY@))) }}
{{- end -}}
{{- end -}}
{{- end -}}
