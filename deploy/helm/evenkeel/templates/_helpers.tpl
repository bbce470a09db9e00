{{- define "evenkeel.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Room is left for the suffixes of Services and pods. */ -}}
{{- define "evenkeel.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "evenkeel.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "evenkeel.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The name of the servers in their log: at most 32 characters. */ -}}
{{- define "evenkeel.fleet" -}}
{{- $whole := printf "%s-%s" .Release.Namespace .Release.Name }}
{{- if .Values.log.fleet }}
{{- .Values.log.fleet }}
{{- else if gt (len $whole) 32 }}
{{- printf "%s-%s" (trunc 23 $whole) (trunc 8 (sha256sum $whole)) }}
{{- else }}
{{- $whole }}
{{- end }}
{{- end }}

{{- define "evenkeel.selectorLabels" -}}
app.kubernetes.io/name: {{ include "evenkeel.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "evenkeel.testLabels" -}}
app.kubernetes.io/name: {{ include "evenkeel.name" . }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "evenkeel.labels" -}}
{{ include "evenkeel.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "evenkeel.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "evenkeel.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "evenkeel.fullname" .) }}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "evenkeel.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "evenkeel.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* The settings that values stand for, and those of .Values.settings. */ -}}
{{- /* The seconds of a duration such as "1m 30s", rounded up. */ -}}
{{- define "evenkeel.seconds" -}}
{{- $units := dict "ms" 0.001 "msec" 0.001 "s" 1 "sec" 1 "second" 1 "seconds" 1
  "m" 60 "min" 60 "minute" 60 "minutes" 60 "h" 3600 "hr" 3600 "hour" 3600 "hours" 3600
  "d" 86400 "day" 86400 "days" 86400 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+ *[a-z]+" . -1 -}}
{{- $count := regexFind "^[0-9]+" . | float64 -}}
{{- $sum = addf $sum (mulf $count (get $units (regexFind "[a-z]+$" .) | float64)) -}}
{{- end -}}
{{- ceil $sum | int -}}
{{- end }}

{{- /* Less than this, and the kubelet kills a server that drains. The defaults are those of the server. */ -}}
{{- define "evenkeel.checkGracePeriod" -}}
{{- $pause := index .Values.settings "drain-pause" | default "2s" -}}
{{- $timeout := index .Values.settings "drain-timeout" | default "30s" -}}
{{- $drain := add (include "evenkeel.seconds" $pause | int) (include "evenkeel.seconds" $timeout | int) -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $drain) -}}
{{- printf "terminationGracePeriodSeconds of %d must be more than drain-pause of %s and drain-timeout of %s together"
  (int .Values.terminationGracePeriodSeconds) $pause $timeout | fail -}}
{{- end -}}
{{- end }}

{{- define "evenkeel.settings" -}}
{{- $settings := dict
  "listen" (printf "0.0.0.0:%d" (int .Values.ports.grpc))
  "admin-listen" (printf "0.0.0.0:%d" (int .Values.ports.admin))
  "log-format" "json" -}}
{{- if .Values.kubernetes.enabled }}
{{- $_ := set $settings "kubernetes" true }}
{{- $_ := set $settings "kubernetes-snapshot" .Values.kubernetes.snapshot }}
{{- with .Values.kubernetes.schedulerConfig }}
{{- $_ := set $settings "kubernetes-scheduler-config" . }}
{{- end }}
{{- end }}
{{- with .Values.expectSnapshots }}
{{- $_ := set $settings "expect-snapshot" . }}
{{- end }}
{{- if .Values.tls.enabled }}
{{- $_ := set $settings "tls-cert" "/etc/evenkeel/tls/tls.crt" }}
{{- $_ := set $settings "tls-key" "/etc/evenkeel/tls/tls.key" }}
{{- if .Values.tls.clientCertificates }}
{{- $_ := set $settings "tls-client-ca" "/etc/evenkeel/tls/ca.crt" }}
{{- end }}
{{- else }}
{{- $_ := set $settings "allow-plaintext" true }}
{{- end }}
{{- if .Values.access.secretName }}
{{- $_ := set $settings "access-file" (printf "/etc/evenkeel/access/%s" .Values.access.key) }}
{{- end }}
{{- if .Values.persistence.enabled }}
{{- /* Not the volume itself: file systems put things of their own there. */ -}}
{{- $_ := set $settings "state-dir" "/var/lib/evenkeel/state" }}
{{- with .Values.persistence.durability }}
{{- $_ := set $settings "durability" . }}
{{- end }}
{{- end }}
{{- if .Values.log.enabled }}
{{- if not .Values.log.servers }}
{{- fail "log.enabled needs log.servers" }}
{{- end }}
{{- $_ := set $settings "log" .Values.log.servers }}
{{- $_ := set $settings "fleet" (include "evenkeel.fleet" .) }}
{{- $_ := set $settings "log-replicas" .Values.log.replicas }}
{{- $keys := dict
  "log-credentials" .Values.log.credentialsKey
  "log-ca" .Values.log.caKey
  "log-certificate" .Values.log.certificateKey
  "log-key" .Values.log.keyKey }}
{{- range $name, $key := $keys }}
{{- if $key }}
{{- $_ := set $settings $name (printf "/etc/evenkeel/log/%s" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- $settings = mergeOverwrite $settings .Values.settings }}
{{- range $name, $value := $settings }}
{{ $name }} = {{ toJson $value }}
{{- end }}
{{- end }}

{{- /* The profile that asks the servers. */ -}}
{{- define "evenkeel.schedulerConfig" -}}
{{- $service := printf "%s.%s.svc" (include "evenkeel.fullname" .) .Release.Namespace -}}
{{- $args := dict
  "address" (printf "dns:///%s:%d" $service (int .Values.ports.grpc))
  "snapshot" .Values.kubernetes.snapshot
  "onUnavailable" .Values.scheduler.onUnavailable
  "timeout" .Values.scheduler.timeout -}}
{{- if .Values.tls.enabled }}
{{- $tls := dict "caFile" "/etc/evenkeel/tls/ca.crt" "serverName" $service }}
{{- if .Values.tls.clientCertificates }}
{{- $_ := set $tls "certFile" "/etc/evenkeel/tls/tls.crt" }}
{{- $_ := set $tls "keyFile" "/etc/evenkeel/tls/tls.key" }}
{{- end }}
{{- $_ := set $args "tls" $tls }}
{{- end }}
{{- if .Values.scheduler.tokenSecretName }}
{{- $_ := set $args "tokenFile" "/etc/evenkeel/token/token" }}
{{- end }}
{{- $args = mergeOverwrite $args .Values.scheduler.args -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: {{ include "evenkeel.fullname" . }}-scheduler
  resourceNamespace: {{ .Release.Namespace }}
profiles:
  - schedulerName: {{ .Values.scheduler.schedulerName }}
    plugins:
      multiPoint:
        enabled: [{name: EvenkeelSpread, weight: 2}]
        disabled: [{name: PodTopologySpread}]
    pluginConfig:
      - name: EvenkeelSpread
        args: {{ toJson $args }}
{{- end }}
