{{/* Name of everything that belongs to the operator. */}}
{{- define "runnerq.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which the operator's pods are known; they never change. */}}
{{- define "runnerq.selectorLabels" -}}
app.kubernetes.io/name: runnerq-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "runnerq.labels" -}}
{{ include "runnerq.selectorLabels" . }}
app.kubernetes.io/part-of: runnerq
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "runnerq.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "runnerq.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: give the account to use, or set serviceAccount.create to true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "runnerq.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* The namespaces that are watched in scope Namespaced, as a JSON list. */}}
{{- define "runnerq.namespaces" -}}
{{- if .Values.namespaces -}}
{{- .Values.namespaces | toJson -}}
{{- else -}}
{{- list .Release.Namespace | toJson -}}
{{- end -}}
{{- end -}}

{{/* What the operator may do where it watches. Nothing is granted that it does not use; a test compares
     these rules with the API server's audit log. */}}
{{- define "runnerq.rules" -}}
- apiGroups: [runnerq.dev]
  resources: [runnerqueues]
  verbs: [list, watch]
- apiGroups: [runnerq.dev]
  resources: [runnerworkerpools]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [runnerq.dev]
  resources: [runnerqueues/status, runnerworkerpools/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [patch]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# By the name that a RunnerQueue gives; never listed, never watched.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
