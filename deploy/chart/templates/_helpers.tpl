{{- define "eodispatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "eodispatch.fullname" -}}
{{- $name := include "eodispatch.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "eodispatch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "eodispatch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "eodispatch.labels" -}}
{{ include "eodispatch.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "eodispatch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "eodispatch.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "eodispatch.image" -}}
{{- $repository := required "image.repository is required: where you copied the image to" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* What the program needs to run: of its own container, and of that of its migration. */}}
{{- define "eodispatch.runtime" -}}
image: {{ include "eodispatch.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: EODISPATCH_CONFIG, value: /etc/eodispatch/broker.yaml}
  - {name: EODISPATCH_LISTEN, value: ":8080"}
  - {name: EODISPATCH_TELEMETRY_LISTEN, value: ":9090"}
  - {name: EODISPATCH_SHUTDOWN_DELAY, value: {{ .Values.shutdownDelay | quote }}}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .Values.secretName .Values.envFrom }}
envFrom:
  {{- with .Values.secretName }}
  - secretRef: {name: {{ . | quote }}}
  {{- end }}
  {{- with .Values.envFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/eodispatch, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "eodispatch.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "eodispatch.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
