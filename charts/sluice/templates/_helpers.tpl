{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "sluice.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Named tokens: Prometheus's, and those of the values. The tokens themselves stay in the Secret. */}}
{{- define "sluice.tokens" -}}
{{- $tokens := list (dict "name" "prometheus" "token" "file:/run/secrets/sluice/metrics-token" "scopes" (list "metrics")) -}}
{{- range .Values.tokens -}}
{{- $tokens = append $tokens (dict "name" .name "token" (printf "file:/run/secrets/sluice/%s" .key) "scopes" .scopes) -}}
{{- end -}}
{{- $tokens | toJson -}}
{{- end -}}
