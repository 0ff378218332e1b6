{{- /* The alerts, as YAML: alert, expr, for, severity, summary. Each has a page in docs/runbooks. Names that
other programs have, too, such as `process_open_fds`, are narrowed to what has `modgate_build_info`. */}}
{{- define "modgate.alerts" -}}
{{- $operations := include "modgate.operations" . | fromJsonArray -}}
{{- $audits := false -}}
{{- range $operations }}{{ if or (empty .) (has "audit" .) }}{{ $audits = true }}{{ end }}{{ end -}}
- alert: ModgateDown
  expr: absent(modgate_build_info)
  for: 5m
  severity: critical
  summary: No Pod of modgate is scraped, so admission is unchecked or refused as the failurePolicy says.
{{- if include "modgate.validation" . }}
- alert: ModgateValidationErrors
  expr: sum(rate(gatekeeper_validation_request_count_total{admission_status=~"error|unknown"}[5m])) > 0
  for: 10m
  severity: warning
  summary: The validating webhook fails to decide some requests.
- alert: ModgateValidationSlow
  expr: histogram_quantile(0.99, sum by (le) (rate(gatekeeper_validation_request_duration_seconds_bucket[5m]))) > {{ mulf 0.5 .Values.validation.timeoutSeconds }}
  for: 10m
  severity: warning
  summary: One in a hundred validations takes longer than half of the webhook's timeout of {{ .Values.validation.timeoutSeconds }} s.
{{- end }}
{{- if include "modgate.mutation" . }}
- alert: ModgateMutationErrors
  expr: sum(rate(gatekeeper_mutation_request_count_total{mutation_status="error"}[5m])) > 0
  for: 10m
  severity: warning
  summary: The mutating webhook fails to decide some requests.
- alert: ModgateMutationSlow
  expr: histogram_quantile(0.99, sum by (le) (rate(gatekeeper_mutation_request_duration_seconds_bucket[5m]))) > {{ mulf 0.5 .Values.mutation.timeoutSeconds }}
  for: 10m
  severity: warning
  summary: One in a hundred mutations takes longer than half of the webhook's timeout of {{ .Values.mutation.timeoutSeconds }} s.
- alert: ModgateMutatorConflict
  expr: max(gatekeeper_mutator_conflicting_count) > 0
  for: 10m
  severity: warning
  summary: Mutators contradict each other and are not applied.
{{- end }}
{{- if include "modgate.kubemod" . }}
- alert: ModgateModRulesSlow
  expr: histogram_quantile(0.99, sum by (le) (rate(controller_runtime_webhook_latency_seconds_bucket{webhook="/dragnet-webhook"}[5m]))) > {{ mulf 0.5 .Values.kubemod.dragnet.timeoutSeconds }}
  for: 10m
  severity: warning
  summary: One in a hundred reviews of ModRules takes longer than half of the webhook's timeout of {{ .Values.kubemod.dragnet.timeoutSeconds }} s.
- alert: ModgateRuleFailures
  expr: sum by (kind, failure) (increase(modgate_rule_failures_total[15m])) > 0
  for: 0m
  severity: warning
  summary: Policies fail during reviews.
{{- end }}
- alert: ModgatePolicyBroken
  expr: max(modgate_policies_broken) > 0
  for: 10m
  severity: warning
  summary: The newest version of a policy does not load; the previous one, if any, stays in force.
- alert: ModgatePolicyDemoted
  expr: max by (kind, name) (modgate_policy_demoted) > 0
  for: 5m
  severity: warning
  summary: A policy keeps using up its time and gets a small share of it, so objects it matches may be undecided.
- alert: ModgateCertificateExpiring
  expr: min(modgate_certificate_not_after_seconds) - time() < 7 * 24 * 3600
  for: 1h
  severity: critical
  summary: The certificate of the webhooks expires within seven days; after that the API server cannot call them.
- alert: ModgateUndecided
  expr: sum by (webhook, cause) (rate(modgate_undecided_reviews_total[5m])) > 0
  for: 10m
  severity: warning
  summary: modgate itself fails to decide some requests; `--internal-errors` and the failurePolicy of the webhook decide these.
- alert: ModgateNoLeader
{{- /* Each Deployment elects a leader of its own. Monitors of the chart say which Deployment a Pod is of. */}}
  {{- $component := "app_kubernetes_io_component" }}
  {{- if .Values.split.enabled }}
  expr: max by ({{ $component }}) (modgate_leader) == 0 or absent(modgate_leader{ {{- $component }}="modgate-audit"}) and on () modgate_build_info{ {{- $component }}="modgate"}
  {{- else }}
  expr: max by ({{ $component }}) (modgate_leader) == 0
  {{- end }}
  for: 5m
  severity: warning
  summary: No Pod of a Deployment of modgate holds its Lease, so audits, statuses and webhook configurations are not written.
- alert: ModgateQueueing
  expr: histogram_quantile(0.99, sum by (le, webhook) (rate(modgate_queue_seconds_bucket[5m]))) > 0.5
  for: 10m
  severity: warning
  summary: One in a hundred reviews waits for half a second or longer before it is evaluated.
{{- if and $audits (gt (int .Values.audit.interval) 0) }}
{{- /* The time of the last audit is unknown before the first one has ended, and when the Pod that audited is gone. */}}
{{- $three := mul 3 .Values.audit.interval }}
{{- $long := max $three 300 }}
- alert: ModgateAuditStale
  expr: time() - max(gatekeeper_audit_last_run_end_time) > {{ $three }} or absent_over_time(gatekeeper_audit_last_run_end_time[{{ $long }}s]) and on () (time() - min(process_start_time_seconds and on (job, instance) modgate_build_info) > {{ $long }})
  for: 5m
  severity: warning
  summary: No audit has ended for three intervals of {{ .Values.audit.interval }} s.
{{- end }}
- alert: ModgateProviderBroken
  expr: max(gatekeeper_providers{status="error"}) > 0
  for: 10m
  severity: warning
  summary: A Provider does not load, so policies that ask it fail.
- alert: ModgateExportDropping
  expr: sum(increase(gatekeeper_admission_export_dropped_count_total[15m])) > 0 or sum(increase(modgate_audit_export_unpublished_total[15m])) > 0
  for: 0m
  severity: warning
  summary: Violations are lost instead of exported.
- alert: ModgateFileDescriptors
  expr: max(process_open_fds / process_max_fds and on (job, instance) modgate_build_info) > 0.8
  for: 10m
  severity: warning
  summary: A Pod has more than four fifths of its file descriptors open.
{{- end }}
