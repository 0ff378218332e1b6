{{- /* A Deployment: root, name, replicas, operations, labels, and `own`, which holds what it has in place of
the values of the chart (values `split`). */}}
{{- define "modgate.deployment" -}}
{{- $values := .root.Values -}}
{{- $own := .own | default dict -}}
{{- $component := dict "app.kubernetes.io/component" .name -}}
apiVersion: apps/v1
kind: Deployment
{{ include "modgate.metadata" (dict "root" .root "name" .name "namespace" .root.Release.Namespace "labels" $component "annotations" $values.deploymentAnnotations) }}
spec:
  replicas: {{ .replicas }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  {{- with $values.strategy }}
  strategy:
    {{- /* Which takes nothing else. */}}
    {{- if eq (.type | default "") "Recreate" }}
    type: Recreate
    {{- else }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  selector:
    matchLabels:
      app.kubernetes.io/name: modgate
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- with merge (dict) $values.podLabels $values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        app.kubernetes.io/name: modgate
        app.kubernetes.io/instance: {{ .root.Release.Name }}
        app.kubernetes.io/component: {{ .name }}
        {{- .labels | nindent 8 }}
      {{- $annotations := merge (dict) ($own.podAnnotations | default dict) $values.podAnnotations $values.commonAnnotations }}
      {{- if and $values.clientAuth.enabled $values.clientAuth.ca }}
      {{- $_ := set $annotations "checksum/client-ca" (sha256sum $values.clientAuth.ca) }}
      {{- end }}
      {{- with $annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $values.serviceAccount.name }}
      automountServiceAccountToken: true
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $own.priorityClassName | default $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with include "modgate.pullSecrets" .root | fromJsonArray }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      {{- with $values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $values.hostNetwork) }}
      dnsPolicy: {{ . }}
      {{- end }}
      {{- with $values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: manager
          {{- include "modgate.container" . | nindent 10 }}
        {{- with $values.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- $volumes := $values.extraVolumes }}
      {{- if include "modgate.serves" .operations }}
      {{- if $values.record.enabled }}
      {{- $volumes = append $volumes (merge (dict "name" "record") ($values.record.volume | default (dict "emptyDir" (dict)))) }}
      {{- end }}
      {{- with $values.shadow.configMap }}
      {{- $volumes = append $volumes (dict "name" "shadow" "configMap" (dict "name" .)) }}
      {{- end }}
      {{- with $values.shadow.caConfigMap }}
      {{- $volumes = append $volumes (dict "name" "shadow-ca" "configMap" (dict "name" .)) }}
      {{- end }}
      {{- end }}
      {{- with include "modgate.certificateVolume" .root }}
      {{- $volumes = prepend $volumes (fromYaml .) }}
      {{- end }}
      {{- with $volumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $own.nodeSelector | default $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $own.tolerations | default $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $own.affinity | default $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if $values.topologySpreadConstraints }}
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: modgate
              app.kubernetes.io/component: {{ $.name }}
        {{- end }}
        {{- end }}
{{- end }}

{{- /* The container of such a Deployment, without its name. */}}
{{- define "modgate.container" -}}
{{- $values := .root.Values -}}
{{- $own := .own | default dict -}}
image: {{ include "modgate.image" .root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args:
  {{- include "modgate.args" (list .root .operations ($own.args | default list)) | nindent 2 }}
env:
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: POD_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  {{- with $values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: webhook-server
    containerPort: 8443
  - name: metrics
    containerPort: 8888
  - name: healthz
    containerPort: 9090
  {{- if and (include "modgate.webapp" .root) (include "modgate.serves" .operations) }}
  - name: api
    containerPort: 8081
  {{- end }}
  {{- if $values.ui.expose }}
  - name: ui
    containerPort: {{ $values.ui.port }}
  {{- end }}
{{- with $values.startupProbe }}
startupProbe:
  httpGet:
    path: /healthz
    port: healthz
  {{- toYaml . | nindent 2 }}
{{- end }}
livenessProbe:
  httpGet:
    path: /healthz
    port: healthz
  {{- with $values.livenessProbe }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
# Until every policy is loaded.
readinessProbe:
  httpGet:
    path: /readyz
    port: healthz
  {{- with $values.readinessProbe }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $own.resources | default $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $mounts := $values.extraVolumeMounts }}
{{- if include "modgate.serves" .operations }}
{{- if $values.record.enabled }}
{{- $mounts = append $mounts (dict "name" "record" "mountPath" "/record" "subPathExpr" "$(POD_NAME)") }}
{{- end }}
{{- if $values.shadow.configMap }}
{{- $mounts = append $mounts (dict "name" "shadow" "mountPath" "/shadow" "readOnly" true) }}
{{- end }}
{{- if $values.shadow.caConfigMap }}
{{- $mounts = append $mounts (dict "name" "shadow-ca" "mountPath" "/shadow-ca" "readOnly" true) }}
{{- end }}
{{- end }}
{{- if include "modgate.certificateVolume" .root }}
{{- $mounts = prepend $mounts (dict "name" "cert" "mountPath" "/certs" "readOnly" true) }}
{{- end }}
{{- with $mounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* What is mounted on /certs: the certificate that modgate does not make, and the authorities of client
certificates. Readable by every user of the container, as its user depends on the cluster. */}}
{{- define "modgate.certificateVolume" -}}
{{- $sources := list -}}
{{- if ne .Values.certificates.source "self" -}}
{{- $sources = append $sources (dict "secret" (dict "name" "gatekeeper-webhook-server-cert")) -}}
{{- end -}}
{{- with .Values.clientAuth -}}
{{- if .enabled -}}
{{- $items := list (dict "key" .key "path" "client-ca.crt") -}}
{{- if .secret -}}
{{- $sources = append $sources (dict "secret" (dict "name" .secret "items" $items)) -}}
{{- else -}}
{{- $sources = append $sources (dict "configMap" (dict "name" (.configMap | default "modgate-client-ca") "items" (ternary $items (list (dict "key" "ca.crt" "path" "client-ca.crt")) (ne .configMap "")))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $sources -}}
{{- dict "name" "cert" "projected" (dict "defaultMode" 0444 "sources" .) | toYaml -}}
{{- end -}}
{{- end }}
