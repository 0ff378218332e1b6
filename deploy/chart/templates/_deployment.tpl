{{- /* A Deployment: root, name, replicas, operations, labels. */}}
{{- define "modgate.deployment" -}}
{{- $values := .root.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "modgate.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  replicas: {{ .replicas }}
  revisionHistoryLimit: 3
  strategy:
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      app.kubernetes.io/name: modgate
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        app.kubernetes.io/name: modgate
        app.kubernetes.io/instance: {{ .root.Release.Name }}
        app.kubernetes.io/component: {{ .name }}
        {{- .labels | nindent 8 }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: gatekeeper-admin
      automountServiceAccountToken: true
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: manager
          image: {{ include "modgate.image" .root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            {{- include "modgate.args" (list .root .operations) | nindent 12 }}
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
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: webhook-server
              containerPort: 8443
            - name: metrics
              containerPort: 8888
            - name: healthz
              containerPort: 9090
            {{- if and $values.kubemod.enabled $values.kubemod.webapp (include "modgate.serves" .operations) }}
            - name: api
              containerPort: 8081
            {{- end }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: healthz
          # Until every policy is loaded.
          readinessProbe:
            httpGet:
              path: /readyz
              port: healthz
            periodSeconds: 2
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            runAsNonRoot: true
            capabilities:
              drop: [ALL]
            seccompProfile:
              type: RuntimeDefault
          {{- $mounts := $values.extraVolumeMounts }}
          {{- if ne $values.certificates.source "self" }}
          {{- $mounts = prepend $mounts (dict "name" "cert" "mountPath" "/certs" "readOnly" true) }}
          {{- end }}
          {{- with $mounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- $volumes := $values.extraVolumes }}
      {{- if ne $values.certificates.source "self" }}
      {{- $secret := dict "secretName" "gatekeeper-webhook-server-cert" "defaultMode" 0440 }}
      {{- $volumes = prepend $volumes (dict "name" "cert" "secret" $secret) }}
      {{- end }}
      {{- with $volumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
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
