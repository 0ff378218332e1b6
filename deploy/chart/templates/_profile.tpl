{{- /* How many objects of a kind the cluster has: (list root version kind). Helm 4 fails to look up kinds that
are not served. */}}
{{- define "modgate.count" -}}
{{- $kind := printf "%s/%s" (index . 1) (index . 2) -}}
{{- if (index . 0).Capabilities.APIVersions.Has $kind -}}
{{- len ((lookup (index . 1) (index . 2) "" "").items | default list) -}}
{{- else -}}
0
{{- end -}}
{{- end }}

{{- /* The profile in effect: `auto` becomes what the cluster has policies for. Webhook configurations count,
too, so that an upgrade takes none away. */}}
{{- define "modgate.profile" -}}
{{- if ne .Values.profile "auto" -}}
{{ .Values.profile }}
{{- else -}}
{{- $configurations := "admissionregistration.k8s.io/v1" -}}
{{- $kubemod := or (ne (include "modgate.count" (list . "api.kubemod.io/v1beta1" "ModRule")) "0") (lookup $configurations "MutatingWebhookConfiguration" "" "kubemod-mutating-webhook-configuration") -}}
{{- $gatekeeper := lookup $configurations "ValidatingWebhookConfiguration" "" .Values.validation.configurationName -}}
{{- range list (list "templates.gatekeeper.sh/v1" "ConstraintTemplate") (list "mutations.gatekeeper.sh/v1" "Assign") (list "mutations.gatekeeper.sh/v1" "AssignMetadata") (list "mutations.gatekeeper.sh/v1" "ModifySet") (list "mutations.gatekeeper.sh/v1alpha1" "AssignImage") -}}
{{- $gatekeeper = or $gatekeeper (ne (include "modgate.count" (concat (list $) .)) "0") -}}
{{- end -}}
{{- if and $kubemod (not $gatekeeper) -}}kubemod
{{- else if and $gatekeeper (not $kubemod) -}}gatekeeper
{{- else -}}both
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Whether each webhook is installed: "yes" or nothing. */}}
{{- define "modgate.validation" -}}
{{- if and .Values.validation.enabled (ne (include "modgate.profile" .) "kubemod") }}yes{{ end }}
{{- end }}
{{- define "modgate.ignoreLabel" -}}
{{- if and .Values.ignoreLabel.enabled (ne (include "modgate.profile" .) "kubemod") }}yes{{ end }}
{{- end }}
{{- define "modgate.mutation" -}}
{{- if and .Values.mutation.enabled (ne (include "modgate.profile" .) "kubemod") }}yes{{ end }}
{{- end }}
{{- define "modgate.kubemod" -}}
{{- if and .Values.kubemod.enabled (ne (include "modgate.profile" .) "gatekeeper") }}yes{{ end }}
{{- end }}
{{- define "modgate.webapp" -}}
{{- if and .Values.kubemod.webapp (include "modgate.kubemod" .) }}yes{{ end }}
{{- end }}
