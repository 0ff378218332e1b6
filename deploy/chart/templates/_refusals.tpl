{{- /* Fails where values contradict each other, with what to do about it. */}}
{{- define "modgate.refusals" -}}
{{- include "modgate.refuseUnanswered" . -}}
{{- include "modgate.refuseArgs" (list . "args" .Values.args) -}}
{{- include "modgate.refuseArgs" (list . "split.args" .Values.split.args) -}}
{{- include "modgate.refuseLevel" .Values.logs.level -}}
{{- include "modgate.refuseLabels" . -}}
{{- include "modgate.refuseAlerts" . -}}
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
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor.enabled and podMonitor.enabled exclude each other: Prometheus would scrape each Pod twice, and sums in alerts and dashboard would double. Set one of them to false" -}}
{{- end -}}
{{- if and .Values.kubemod.webapp (eq .Values.profile "gatekeeper") -}}
{{- fail "kubemod.webapp is the dry-run API of ModRules, which profile=gatekeeper leaves out: set profile=both, or kubemod.webapp=false" -}}
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

{{- /* A level of logs that does not exist; then `info` would be logged. A text without `=` beside others may be the
name of a logger. */}}
{{- define "modgate.refuseLevel" -}}
{{- $levels := list "debug" "error" "fatal" "info" "off" "trace" "warn" "warning" -}}
{{- $directives := splitList "," . -}}
{{- range $directives -}}
{{- $level := splitList "=" . | last | trim -}}
{{- $isLogger := and (gt (len $directives) 1) (not (contains "=" .)) -}}
{{- if and $level (not $isLogger) (not (has (lower $level) $levels)) (not (regexMatch "^[0-5]$" $level)) -}}
{{- fail (printf "logs.level: there is no level `%s`; the levels are %s" $level (join ", " $levels)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Labels by which Helm, Services, budgets and monitors know the objects. */}}
{{- define "modgate.refuseLabels" -}}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/managed-by" "helm.sh/chart" "gatekeeper.sh/system" "gatekeeper.sh/operation" "control-plane" -}}
{{- range $path, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "metrics.service.labels" .Values.metrics.service.labels -}}
{{- range $label, $_ := $labels -}}
{{- if has $label $own -}}
{{- fail (printf "%s: leave out %s, a label that the chart sets itself and that objects are selected by" $path $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Names in prometheusRule.disabled that no alert has, with any values. */}}
{{- define "modgate.refuseAlerts" -}}
{{- with .Values.prometheusRule.disabled -}}
{{- $values := deepCopy $.Values -}}
{{- $_ := set $values "profile" "both" -}}
{{- $_ := set $values "operations" list -}}
{{- $_ := set $values.validation "enabled" true -}}
{{- $_ := set $values.mutation "enabled" true -}}
{{- $_ := set $values.kubemod "enabled" true -}}
{{- $_ := set $values.audit "interval" 60 -}}
{{- $names := list -}}
{{- range include "modgate.alerts" (dict "Values" $values) | fromYamlArray -}}
{{- $names = append $names .alert -}}
{{- end -}}
{{- range . -}}
{{- if not (has . $names) -}}
{{- fail (printf "prometheusRule.disabled: there is no alert %s; the alerts are %s" . (sortAlpha $names | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Flags that do not exist or lack a value, and flags that other values say: (list root path flags). */}}
{{- define "modgate.refuseArgs" -}}
{{- $path := index . 1 -}}
{{- /* What help calls the value of a flag, for those that need one. */}}
{{- $wanted := dict -}}
{{- range (index . 0).Files.Lines "files/flags.txt" -}}
{{- $parts := splitn "=" 2 . -}}
{{- $_ := set $wanted $parts._0 ($parts._1 | default "") -}}
{{- end -}}
{{- $known := without (keys $wanted | sortAlpha) "" -}}
{{- $own := dict
  "additional-mutating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.mutating"
  "additional-validating-webhook-configs-to-rotate-certs" "certificates.additionalConfigurations.validating"
  "address" ""
  "admission-policies" "admissionPolicies.enabled"
  "audit-interval" "audit.interval"
  "cert-dir" "certificates.source"
  "cert-service-name" ""
  "client-ca-name" "clientAuth.enabled"
  "client-cn-name" "clientAuth.commonName"
  "cluster-modrules-namespace" "kubemod.namespace"
  "constraint-violations-limit" "audit.constraintViolationsLimit"
  "disable-cert-rotation" "certificates.source"
  "exempt-namespace" "ignoreLabel.allowedNamespaces"
  "exempt-namespace-prefix" "ignoreLabel.allowedPrefixes"
  "exempt-namespace-suffix" "ignoreLabel.allowedSuffixes"
  "health-addr" ""
  "host" ""
  "late-rejections" "kubemod.lateRejections"
  "log-denies" "logs.denies"
  "log-level" "logs.level"
  "log-mutations" "logs.mutations"
  "modrule-exempt-namespace" "ignoreLabel.allowedModRuleNamespaces"
  "modrule-resource" "kubemod.dragnet.resources"
  "mutating-webhook-configuration-name" "mutation.configurationName"
  "operation" "operations"
  "operator-health-probe-addr" ""
  "operator-metrics-addr" ""
  "policy-reports" "audit.policyReports"
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
{{- /* Of these modgate-audit may have others. */}}
{{- if eq $path "split.args" -}}{{- $own = omit $own "log-denies" "log-level" "log-mutations" -}}{{- end -}}
{{- range index . 2 -}}
{{- $flag := regexReplaceAll "=.*$" (regexReplaceAll "^--?" . "") "" -}}
{{- if hasKey $own $flag -}}
{{- with get $own $flag -}}
{{- fail (printf "%s: --%s is said by the value %s, so leave it out here and set that" $path $flag .) -}}
{{- end -}}
{{- fail (printf "%s: leave out --%s, which the rest of the chart has to agree with" $path $flag) -}}
{{- end -}}
{{- if not (hasKey $wanted $flag) -}}
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
{{- $value := get $wanted $flag -}}
{{- if and $value (not (contains "=" .)) -}}
{{- fail (printf "%s: --%s needs a value: write --%s=%s" $path $flag $flag $value) -}}
{{- end -}}
{{- if and (has $value (list "BYTES" "LEVELS" "N" "SECONDS")) (not (regexMatch "=-?[0-9]+$" .)) (ne $flag "vmodule") -}}
{{- fail (printf "%s: %s is not a whole number, which --%s takes" $path . $flag) -}}
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
