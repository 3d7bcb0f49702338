{{- define "ppojob-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of all objects: the release's, with the chart's where the release is called otherwise. */}}
{{- define "ppojob-operator.fullname" -}}
{{- $name := include "ppojob-operator.name" . -}}
{{- $default := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $default .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "ppojob-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ppojob-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Of the pod of `helm test`; not those of the operator, or the Service would send requests to it. */}}
{{- define "ppojob-operator.testLabels" -}}
app.kubernetes.io/name: {{ include "ppojob-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end -}}

{{/* ppojob_contract.names.MONITOR_PORT; a test compares them. */}}
{{- define "ppojob-operator.monitorPort" -}}
8477
{{- end -}}

{{- define "ppojob-operator.labels" -}}
{{ include "ppojob-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "ppojob-operator.serviceAccountName" -}}
{{- default (ternary (include "ppojob-operator.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "ppojob-operator.subject" -}}
- kind: ServiceAccount
  name: {{ include "ppojob-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Renders to "true" where PodMonitors are wanted and, for auto, known to the cluster. */}}
{{- define "ppojob-operator.podMonitors" -}}
{{- $wanted := toString .Values.podMonitor.enabled -}}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
true
{{- end -}}
{{- end -}}

{{/* What users need to look at their PPOJobs, and to delete them, stays when the release goes and the CRD stays. */}}
{{- define "ppojob-operator.keep" -}}
{{- if .Values.crds.keep -}}
annotations:
  helm.sh/resource-policy: keep
{{- end -}}
{{- end -}}

{{/* By tag, or by digest where one is set. */}}
{{- define "ppojob-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of the containers of this chart: Pod Security Standard "restricted", and no writable root. */}}
{{- define "ppojob-operator.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/*
What the operator may do in the namespaces of the jobs. Only what it does: adapters/kubernetes/kinds.py has the same
table, and a test compares the two.
*/}}
{{- define "ppojob-operator.rules" -}}
# The jobs: watched by controller/handlers, read by adapters/kubernetes/cluster, deleted when their time to live is over.
# A trial is a job of its own, created by controller/act.
- apiGroups: [rlhf.dev]
  resources: [ppojobs]
  verbs: [get, list, watch, create, delete]
# adapters/kubernetes/cluster.write_status: the only place where anything of a job is written.
- apiGroups: [rlhf.dev]
  resources: [ppojobs/status]
  verbs: [update]
# controller/act creates and deletes Ray clusters and jobs; they are never changed.
- apiGroups: [ray.io]
  resources: [rayclusters, rayjobs]
  verbs: [get, list, watch, create, delete]
# Ray's pods tell what KubeRay's status does not: see adapters/kubernetes/views.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# controller/act: the monitor's token, created for each job and read to call the monitor.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
# controller/observe: whether the job's claim exists.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
# adapters/kubernetes/events.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# controller/reconcile: accepted specs, which govern while a later edit is refused.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, create, delete]
{{- end -}}
