{{- /* Fails where values contradict each other, with what to do about it. */}}
{{- define "modgate.refusals" -}}
{{- include "modgate.refuseUnanswered" . -}}
{{- include "modgate.refuseArgs" . -}}
{{- if .Values.unifiedMutation.enabled }}{{ include "modgate.refuseUnlike" . }}{{ end -}}
{{- end }}

{{- /* Webhooks that no Pod would answer. */}}
{{- define "modgate.refuseUnanswered" -}}
{{- $operations := include "modgate.operations" . | fromJsonArray | first -}}
{{- range $webhooks, $needed := dict
  "validation" (ternary (list "webhook") list .Values.validation.enabled)
  "ignoreLabel" (ternary (list "webhook") list .Values.ignoreLabel.enabled)
  "mutation" (ternary (list "mutation-webhook") list .Values.mutation.enabled)
  "kubemod" (ternary (list "webhook" "mutation-webhook") list .Values.kubemod.enabled) -}}
{{- range $needed -}}
{{- if and $operations (not (has . $operations)) -}}
{{- fail (printf "%s.enabled needs Pods that answer: add `%s` to operations, or set %s.enabled=false" $webhooks . $webhooks) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Flags that ports, rights and webhook configurations have to agree with. */}}
{{- define "modgate.refuseArgs" -}}
{{- $own := dict
  "additional-mutating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.mutating"
  "additional-validating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.validating"
  "address" ""
  "cert-dir" "certificates.source"
  "cert-service-name" ""
  "cluster-modrules-namespace" "kubemod.namespace"
  "disable-cert-rotation" "certificates.source"
  "health-addr" ""
  "host" ""
  "modrule-resource" "kubemod.dragnet.resources"
  "mutating-webhook-configuration-name" "mutation.configurationName"
  "operation" "operations"
  "operator-health-probe-addr" ""
  "operator-metrics-addr" ""
  "port" ""
  "prometheus-port" ""
  "unified-mutate" "unifiedMutation.enabled"
  "validating-webhook-configuration-name" "validation.configurationName"
  "webapp-addr" "kubemod.webapp" -}}
{{- range .Values.args -}}
{{- $flag := regexReplaceAll "=.*$" (regexReplaceAll "^--?" . "") "" -}}
{{- if hasKey $own $flag -}}
{{- with get $own $flag -}}
{{- fail (printf "args: --%s is said by the value %s, which the rest of the chart follows" $flag .) -}}
{{- end -}}
{{- fail (printf "args: leave out --%s, which the rest of the chart has to agree with" $flag) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Halves of the unified webhook that one entry cannot keep apart. */}}
{{- define "modgate.refuseUnlike" -}}
{{- $mutation := .Values.mutation -}}
{{- $dragnet := .Values.kubemod.dragnet -}}
{{- if not (and $mutation.enabled .Values.kubemod.enabled) -}}
{{- fail "unifiedMutation.enabled is for mutators and ModRules together: set mutation.enabled and kubemod.enabled, too, or leave it off" -}}
{{- end -}}
{{- range $half, $values := dict "mutation" $mutation "kubemod.dragnet" $dragnet -}}
{{- range list "exemptNamespaces" "namespaceExpressions" "objectSelector" "matchConditions" -}}
{{- if get $values . -}}
{{- fail (printf "%s.%s would be lost with unifiedMutation.enabled: set unifiedMutation.%s, which holds for mutators and ModRules" $half . .) -}}
{{- end -}}
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
{{- range list "apiGroups" "apiVersions" -}}
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
