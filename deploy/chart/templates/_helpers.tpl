{{- /* Labels of every object. */}}
{{- define "modgate.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/name: modgate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: modgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
gatekeeper.sh/system: "yes"
{{- end }}

{{- /* The metadata of an object: root, name, and optionally namespace, labels and annotations, which are
objects. */}}
{{- define "modgate.metadata" -}}
{{- $labels := merge (dict) (.labels | default dict) (include "modgate.labels" .root | fromYaml) -}}
{{- $annotations := merge (dict) (.annotations | default dict) .root.Values.commonAnnotations -}}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- toYaml $labels | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The metadata of a webhook configuration: (list root name). */}}
{{- define "modgate.webhookMetadata" -}}
{{- $root := index . 0 -}}
{{- $annotations := dict -}}
{{- if eq $root.Values.certificates.source "cert-manager" -}}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/gatekeeper-webhook-server-cert" $root.Release.Namespace) -}}
{{- end -}}
{{- $annotations = merge $annotations $root.Values.webhookAnnotations -}}
{{- include "modgate.metadata" (dict "root" $root "name" (index . 1) "labels" (dict "app.kubernetes.io/component" "webhooks") "annotations" $annotations) -}}
{{- end }}

{{- /* The labels by which Services and budgets have always known the Pods that serve webhooks. */}}
{{- define "modgate.servingLabels" -}}
control-plane: controller-manager
gatekeeper.sh/operation: webhook
gatekeeper.sh/system: "yes"
{{- end }}

{{- define "modgate.auditLabels" -}}
control-plane: audit-controller
gatekeeper.sh/operation: audit
gatekeeper.sh/system: "yes"
{{- end }}

{{- /* The operations of each Deployment, as JSON; none means all. */}}
{{- define "modgate.operations" -}}
{{- if .Values.split.enabled -}}
{{- $serving := .Values.operations | default (list "webhook" "mutation-webhook") -}}
{{- list $serving (list "audit" "status" "mutation-status" "generate") | toJson -}}
{{- else -}}
{{- list .Values.operations | toJson -}}
{{- end -}}
{{- end }}

{{- define "modgate.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is missing: no image of modgate is published. Build one (docs/install.md), push it, and set image.repository=REGISTRY/modgate" $image.repository -}}
{{- with .Values.global.imageRegistry | default $image.registry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* Pull Secrets of the chart and of a parent chart, as JSON. */}}
{{- define "modgate.pullSecrets" -}}
{{- $all := .Values.imagePullSecrets -}}
{{- range .Values.global.imagePullSecrets -}}
{{- $all = append $all (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- $all | uniq | toJson -}}
{{- end }}

{{- /* What a webhook entry calls: (list root path). */}}
{{- define "modgate.clientConfig" -}}
{{- $root := index . 0 -}}
clientConfig:
  service:
    name: gatekeeper-webhook-service
    namespace: {{ $root.Release.Namespace }}
    path: {{ index . 1 }}
    port: 443
  {{- if eq $root.Values.certificates.source "secret" }}
  caBundle: {{ required "certificates.caBundle is missing: with certificates.source=secret it holds the CA that the API server trusts" $root.Values.certificates.caBundle }}
  {{- end }}
admissionReviewVersions: [v1, v1beta1]
{{- end }}

{{- /* The MutatingWebhookConfiguration of mutators. */}}
{{- define "modgate.mutatingConfiguration" -}}
{{- if .Values.unifiedMutation.enabled -}}
modgate-mutating-webhook-configuration
{{- else -}}
{{ .Values.mutation.configurationName }}
{{- end }}
{{- end }}

{{- /* What the webhook of both mutators and ModRules receives, as JSON. The API server takes no resource
beside `*` but subresources. */}}
{{- define "modgate.unifiedRules" -}}
{{- $mutation := .Values.mutation -}}
{{- $dragnet := .Values.kubemod.dragnet -}}
{{- $all := concat $mutation.resources $dragnet.resources | uniq -}}
{{- $resources := list -}}
{{- range $all -}}
{{- if or (eq . "*") (contains "/" .) (not (has "*" $all)) -}}
{{- $resources = append $resources . -}}
{{- end -}}
{{- end -}}
{{- $operations := concat $mutation.operations $dragnet.operations | uniq -}}
{{- dict "operations" $operations "apiGroups" $mutation.apiGroups "apiVersions" $mutation.apiVersions "resources" $resources "scope" $mutation.scope | toJson -}}
{{- end }}

{{- /* What a webhook entry matches: (list root values ignored), where `ignored` is the expression of its own
ignore label. The namespace modgate runs in is never sent to modgate, so that it can always be started. */}}
{{- define "modgate.selectors" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
rules:
  {{- if $values.rules }}
  {{- toYaml $values.rules | nindent 2 }}
  {{- else }}
  - apiGroups: {{ toJson $values.apiGroups }}
    apiVersions: {{ toJson $values.apiVersions }}
    operations: {{ toJson $values.operations }}
    scope: {{ $values.scope | quote }}
    resources:
      {{- toYaml $values.resources | nindent 6 }}
  {{- end }}
namespaceSelector:
  {{- if $values.namespaceSelector }}
  {{- with $values.namespaceSelector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- $expressions := $values.namespaceSelector.matchExpressions | default list }}
  {{- $exempt := false }}
  {{- range $expressions }}
  {{- if and (eq .key "kubernetes.io/metadata.name") (eq .operator "NotIn") (has $root.Release.Namespace .values) }}
  {{- $exempt = true }}
  {{- end }}
  {{- end }}
  {{- if not $exempt }}
  {{- $expressions = append $expressions (dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list $root.Release.Namespace)) }}
  {{- end }}
  matchExpressions:
    {{- toYaml $expressions | nindent 4 }}
  {{- else }}
  matchExpressions:
    {{- with index . 2 }}
    - {{ toJson . }}
    {{- end }}
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- concat (list $root.Release.Namespace) $values.exemptNamespaces | toYaml | nindent 8 }}
    {{- with $values.namespaceExpressions }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- with $values.objectSelector }}
objectSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.matchConditions }}
matchConditions:
  {{- toYaml . | nindent 2 }}
{{- end }}
failurePolicy: {{ $values.failurePolicy }}
timeoutSeconds: {{ $values.timeoutSeconds }}
matchPolicy: {{ $values.matchPolicy }}
sideEffects: None
{{- end }}

{{- /* The webhook that validates ModRules before they are stored. */}}
{{- define "modgate.modruleWebhook" -}}
{{- $root := index . 0 -}}
- name: {{ index . 1 }}
  {{- include "modgate.clientConfig" (list $root (index . 2)) | nindent 2 }}
  rules:
    - apiGroups: [api.kubemod.io]
      apiVersions: [v1beta1]
      operations: [CREATE, UPDATE]
      resources: [modrules]
  failurePolicy: {{ $root.Values.kubemod.modrules.failurePolicy }}
  timeoutSeconds: {{ $root.Values.kubemod.modrules.timeoutSeconds }}
  sideEffects: None
{{- end }}

{{- /* The webhook that keeps namespaces from exempting themselves by a label: (list root name). */}}
{{- define "modgate.ignoreLabelWebhook" -}}
{{- $root := index . 0 -}}
- name: {{ index . 1 }}
  {{- include "modgate.clientConfig" (list $root "/v1/admitlabel") | nindent 2 }}
  rules:
    - apiGroups: [""]
      apiVersions: ["*"]
      operations: [CREATE, UPDATE]
      resources: [namespaces]
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: [{{ $root.Release.Namespace }}]
  failurePolicy: {{ $root.Values.ignoreLabel.failurePolicy }}
  timeoutSeconds: {{ $root.Values.ignoreLabel.timeoutSeconds }}
  matchPolicy: Exact
  sideEffects: None
{{- end }}

{{- /* What Reject rules do in the validating phase; YAML reads `off` as false. */}}
{{- define "modgate.lateRejections" -}}
{{- .kubemod.lateRejections | default "off" -}}
{{- end }}

{{- /* The webhook that names the Node of a Pod in the Pod. */}}
{{- define "modgate.podBindingWebhook" -}}
{{- with .Values.kubemod.podBinding }}
{{- if .enabled }}
- name: podbinding.kubemod.io
  {{- include "modgate.clientConfig" (list $ "/podbinding-webhook") | nindent 2 }}
  rules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [pods/binding]
      scope: "*"
  namespaceSelector:
    matchExpressions:
      - key: admission.kubemod.io/ignore
        operator: NotIn
        values: ["true"]
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: [{{ $.Release.Namespace }}]
  failurePolicy: {{ .failurePolicy }}
  timeoutSeconds: {{ .timeoutSeconds }}
  # It writes to the Pod, and leaves that when the request is a dry run.
  sideEffects: NoneOnDryRun
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether Pods that do this serve webhooks: the operations, none for all. */}}
{{- define "modgate.serves" -}}
{{- if or (empty .) (has "webhook" .) (has "mutation-webhook" .) }}yes{{ end }}
{{- end }}

{{- /* Flags of `modgate serve`: (list root operations more). */}}
{{- define "modgate.args" -}}
{{- $root := index . 0 -}}
{{- $serves := include "modgate.serves" (index . 1) -}}
{{- $values := $root.Values -}}
- serve
- --port=8443
- --cert-dir=/certs
- --health-addr=:9090
- --prometheus-port=8888
- --log-level={{ $values.logs.level }}
{{- if $values.logs.denies }}
- --log-denies
{{- end }}
{{- if $values.logs.mutations }}
- --log-mutations
{{- end }}
{{- range index . 1 }}
- --operation={{ . }}
{{- end }}
- --audit-interval={{ $values.audit.interval }}
- --constraint-violations-limit={{ $values.audit.constraintViolationsLimit }}
{{- if ne ($values.audit.policyReports | default "none") "none" }}
- --policy-reports={{ $values.audit.policyReports }}
{{- end }}
- --exempt-namespace={{ $root.Release.Namespace }}
{{- range $values.ignoreLabel.allowedNamespaces }}
- --exempt-namespace={{ . }}
{{- end }}
{{- range $values.ignoreLabel.allowedPrefixes }}
- --exempt-namespace-prefix={{ . }}
{{- end }}
{{- range $values.ignoreLabel.allowedSuffixes }}
- --exempt-namespace-suffix={{ . }}
{{- end }}
{{- range $values.ignoreLabel.allowedModRuleNamespaces }}
- --modrule-exempt-namespace={{ . }}
{{- end }}
- --late-rejections={{ include "modgate.lateRejections" $values }}
- --cluster-modrules-namespace={{ $values.kubemod.namespace }}
{{- if and (include "modgate.webapp" $root) $serves }}
- --webapp-addr=:8081
{{- end }}
{{- if $values.ui.enabled }}
- --ui-address={{ ternary "" "127.0.0.1" $values.ui.expose }}:{{ $values.ui.port }}
{{- end }}
{{- if ne $values.certificates.source "self" }}
- --disable-cert-rotation
{{- end }}
{{- if $values.clientAuth.enabled }}
- --client-ca-name=client-ca.crt
- --client-cn-name={{ $values.clientAuth.commonName }}
{{- end }}
{{- with $values.validation.configurationName }}
{{- if ne . "gatekeeper-validating-webhook-configuration" }}
- --validating-webhook-configuration-name={{ . }}
{{- end }}
{{- end }}
{{- with include "modgate.mutatingConfiguration" $root }}
{{- if ne . "gatekeeper-mutating-webhook-configuration" }}
- --mutating-webhook-configuration-name={{ . }}
{{- end }}
{{- end }}
{{- if $serves }}
{{- with $values.record }}
{{- if .enabled }}
- --record=/record
- --record-max-size={{ .maxSize }}
- --record-max-age={{ .maxAge }}
- --record-sample={{ .sample }}
{{- range $name, $rate := .namespaces }}
- {{ printf "--record-namespace=%s=%v" $name $rate | quote }}
{{- end }}
{{- range $name, $rate := .policies }}
- {{ printf "--record-policy=%s=%v" $name $rate | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $values.shadow }}
{{- if .configMap }}
- --shadow=/shadow
{{- end }}
{{- range .urls }}
- {{ printf "--shadow-url=%s" . | quote }}
{{- end }}
{{- if .urls }}
- --shadow-timeout={{ .timeout }}
{{- if .caConfigMap }}
- --shadow-ca=/shadow-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if $values.admissionPolicies.enabled }}
- --admission-policies=marked
{{- range list "mutating" "validating" }}
- --additional-{{ . }}-webhook-configs-to-rotate-certs=admission-policies.modgate.sh
{{- end }}
{{- end }}
{{- range $kind, $names := $values.certificates.additionalConfigurations }}
{{- range $names }}
- --additional-{{ $kind }}-webhook-configs-to-rotate-certs={{ . }}
{{- end }}
{{- end }}
{{- if $values.unifiedMutation.enabled }}
- --unified-mutate
{{- range $values.kubemod.dragnet.resources }}
- --modrule-resource={{ . }}
{{- end }}
{{- end }}
{{- with concat $values.args (index . 2) }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
