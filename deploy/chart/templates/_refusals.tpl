{{- /* Fails where values contradict each other, with what to do about it. */}}
{{- define "modgate.refusals" -}}
{{- include "modgate.refuseUnanswered" . -}}
{{- include "modgate.refuseArgs" (list . "args" .Values.args) -}}
{{- include "modgate.refuseArgs" (list . "split.args" .Values.split.args) -}}
{{- include "modgate.refuseClientAuth" . -}}
{{- if .Values.unifiedMutation.enabled }}{{ include "modgate.refuseUnlike" . }}{{ end -}}
{{- if and .Values.shadow.configMap .Values.shadow.urls -}}
{{- fail "shadow.configMap and shadow.urls exclude each other: a request has one second decision" -}}
{{- end -}}
{{- if and .Values.ui.expose (not .Values.ui.enabled) -}}
{{- fail "ui.expose is for ui.enabled, which is false" -}}
{{- end -}}
{{- if and .Values.shadow.caConfigMap (not .Values.shadow.urls) -}}
{{- fail "shadow.caConfigMap is for shadow.urls, which is empty" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "serviceMonitor.enabled needs the Service it selects: set metrics.service.enabled=true, or podMonitor.enabled=true instead" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is missing: with serviceAccount.create=false it names the account of the Pods" -}}
{{- end -}}
{{- end }}

{{- /* Webhooks that no Pod would answer. */}}
{{- define "modgate.refuseUnanswered" -}}
{{- $operations := include "modgate.operations" . | fromJsonArray | first -}}
{{- range $webhooks, $needed := dict
  "validation" (ternary (list "webhook") list (eq "yes" (include "modgate.validation" .)))
  "ignoreLabel" (ternary (list "webhook") list (eq "yes" (include "modgate.ignoreLabel" .)))
  "mutation" (ternary (list "mutation-webhook") list (eq "yes" (include "modgate.mutation" .)))
  "admissionPolicies" (ternary (list "webhook" "mutation-webhook") list .Values.admissionPolicies.enabled)
  "kubemod" (ternary (list "webhook" "mutation-webhook") list (eq "yes" (include "modgate.kubemod" .))) -}}
{{- range $needed -}}
{{- if and $operations (not (has . $operations)) -}}
{{- fail (printf "%s.enabled needs Pods that answer: add `%s` to operations, or set %s.enabled=false" $webhooks . $webhooks) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Flags that do not exist, and flags that ports, rights and webhook configurations have to agree with:
(list root path flags). */}}
{{- define "modgate.refuseArgs" -}}
{{- $path := index . 1 -}}
{{- $known := (index . 0).Files.Lines "files/flags.txt" -}}
{{- $own := dict
  "additional-mutating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.mutating"
  "additional-validating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.validating"
  "address" ""
  "admission-policies" "admissionPolicies.enabled"
  "cert-dir" "certificates.source"
  "cert-service-name" ""
  "client-ca-name" "clientAuth.enabled"
  "client-cn-name" "clientAuth.commonName"
  "cluster-modrules-namespace" "kubemod.namespace"
  "disable-cert-rotation" "certificates.source"
  "health-addr" ""
  "host" ""
  "late-rejections" "kubemod.lateRejections"
  "modrule-exempt-namespace" "ignoreLabel.allowedModRuleNamespaces"
  "modrule-resource" "kubemod.dragnet.resources"
  "mutating-webhook-configuration-name" "mutation.configurationName"
  "operation" "operations"
  "operator-health-probe-addr" ""
  "operator-metrics-addr" ""
  "port" ""
  "prometheus-port" ""
  "record" "record.enabled"
  "record-max-age" "record.maxAge"
  "record-max-size" "record.maxSize"
  "record-namespace" "record.namespaces"
  "record-policy" "record.policies"
  "record-sample" "record.sample"
  "shadow" "shadow.configMap"
  "shadow-ca" "shadow.caConfigMap"
  "shadow-timeout" "shadow.timeout"
  "shadow-url" "shadow.urls"
  "ui-address" "ui.enabled"
  "unified-mutate" "unifiedMutation.enabled"
  "validating-webhook-configuration-name" "validation.configurationName"
  "webapp-addr" "kubemod.webapp" -}}
{{- range index . 2 -}}
{{- $flag := regexReplaceAll "=.*$" (regexReplaceAll "^--?" . "") "" -}}
{{- if hasKey $own $flag -}}
{{- with get $own $flag -}}
{{- fail (printf "%s: --%s is said by the value %s, which the rest of the chart follows" $path $flag .) -}}
{{- end -}}
{{- fail (printf "%s: leave out --%s, which the rest of the chart has to agree with" $path $flag) -}}
{{- end -}}
{{- if not (has $flag $known) -}}
{{- $near := list -}}
{{- range $length := list 12 8 5 -}}
{{- if and (not $near) (ge (len $flag) $length) -}}
{{- range $known -}}
{{- if hasPrefix (trunc $length $flag) . -}}{{- $near = append $near (printf "--%s" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $near -}}
{{- fail (printf "%s: --%s is no flag of `modgate serve`; did you mean %s?" $path $flag (join " or " $near)) -}}
{{- end -}}
{{- fail (printf "%s: --%s is no flag of `modgate serve`; docs/cli.md lists them" $path $flag) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Authorities of client certificates come from one place. */}}
{{- define "modgate.refuseClientAuth" -}}
{{- with .Values.clientAuth -}}
{{- $given := compact (list .ca .configMap .secret) -}}
{{- if and .enabled (ne (len $given) 1) -}}
{{- fail "clientAuth.enabled needs the authorities that sign the API server's client certificate: set exactly one of clientAuth.ca, clientAuth.configMap and clientAuth.secret" -}}
{{- end -}}
{{- if and (not .enabled) $given -}}
{{- fail "clientAuth names authorities and is off: set clientAuth.enabled=true, or leave them out" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Halves of the unified webhook that one entry cannot keep apart. */}}
{{- define "modgate.refuseUnlike" -}}
{{- $mutation := .Values.mutation -}}
{{- $dragnet := .Values.kubemod.dragnet -}}
{{- if not (and (include "modgate.mutation" .) (include "modgate.kubemod" .)) -}}
{{- fail "unifiedMutation.enabled is for mutators and ModRules together: set mutation.enabled and kubemod.enabled, too, or leave it off" -}}
{{- end -}}
{{- range $half, $values := dict "mutation" $mutation "kubemod.dragnet" $dragnet -}}
{{- range list "exemptNamespaces" "namespaceExpressions" "namespaceSelector" "objectSelector" "matchConditions" -}}
{{- if get $values . -}}
{{- fail (printf "%s.%s would be lost with unifiedMutation.enabled: set unifiedMutation.%s, which holds for mutators and ModRules" $half . .) -}}
{{- end -}}
{{- end -}}
{{- if $values.rules -}}
{{- fail (printf "%s.rules cannot be combined with unifiedMutation.enabled: set operations, apiGroups, apiVersions and resources" $half) -}}
{{- end -}}
{{- if and (eq $values.failurePolicy "Fail") (ne $.Values.unifiedMutation.failurePolicy "Fail") -}}
{{- fail (printf "%s.failurePolicy would be lost with unifiedMutation.enabled: set unifiedMutation.failurePolicy=Fail, which holds for mutators and ModRules" $half) -}}
{{- end -}}
{{- range list "CREATE" "UPDATE" -}}
{{- if not (has . $values.operations) -}}
{{- fail (printf "%s.operations cannot leave out %s with unifiedMutation.enabled, where the other half is sent it" $half .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range list "apiGroups" "apiVersions" "scope" -}}
{{- if ne (get $mutation . | toJson) (get $dragnet . | toJson) -}}
{{- fail (printf "mutation.%s and kubemod.dragnet.%s must be the same with unifiedMutation.enabled" . .) -}}
{{- end -}}
{{- end -}}
{{- range $dragnet.resources -}}
{{- if not (or (has . $mutation.resources) (and (has "*" $mutation.resources) (not (contains "/" .)))) -}}
{{- fail (printf "mutation.resources cannot leave out %s with unifiedMutation.enabled, where ModRules are sent it" .) -}}
{{- end -}}
{{- end -}}
{{- end }}
