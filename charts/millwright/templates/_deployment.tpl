{{- /*
One process of Millwright, its account and its budget. Takes root, name, args (of its own), components (those it holds), ports (name and number),
resources and extraArgs. The process that holds the machine controller talks to the cloud.
*/}}
{{- define "millwright.process" }}
{{- $values := .root.Values }}
{{- $cloud := has "machine-controller" .components }}
{{- $sidecar := and $cloud (ne $values.driver.kind "aws") }}
{{- $labels := dict "app.kubernetes.io/part-of" "millwright" "app.kubernetes.io/component" .name }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/part-of: millwright}
{{- if $cloud }}
{{- with $values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
spec:
  # One replica, because each sidecar is a separate cloud.
  replicas: {{ ternary 1 $values.replicas (and $cloud (eq $values.driver.kind "virtual")) }}
  revisionHistoryLimit: 2
  selector:
    matchLabels: {{- toYaml $labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- toYaml $labels | nindent 8 }}
        {{- range .components }}
        millwright/{{ . }}: "true"
        {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      # Only the millwright container gets the service account token. Other containers, such as a driver, do not.
      automountServiceAccountToken: false
      priorityClassName: {{ $values.priorityClassName }}
      # Longer than the 5 s that running calls have to end, so that the Lease is released.
      terminationGracePeriodSeconds: 20
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 6 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels: {{- toYaml $labels | nindent 12 }}
      containers:
      - name: millwright
        image: {{ $values.image.repository }}:{{ $values.image.tag | default .root.Chart.AppVersion }}
        {{- if ne $values.image.pullPolicy "IfNotPresent" }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        {{- end }}
        args:
        {{- toYaml .args | nindent 8 }}
        {{- if $sidecar }}
        - --driver-endpoint=unix:/run/driver/driver.sock
        {{- else if $cloud }}
        - --provider=AWS
        {{- end }}
        {{- if $values.separateTarget }}
        - --target-kubeconfig=/var/run/millwright/target/kubeconfig
        {{- end }}
        {{- if and $cloud $values.tracing.endpoint }}
        - --tracing-endpoint=$(TRACING_ENDPOINT)
        - --tracing-sample-ratio=$(TRACING_SAMPLE_RATIO)
        {{- end }}
        {{- with .extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        env:
        {{- if and $cloud $values.tracing.endpoint }}
        - {name: TRACING_ENDPOINT, value: {{ $values.tracing.endpoint | quote }}}
        - {name: TRACING_SAMPLE_RATIO, value: {{ $values.tracing.sampleRatio | quote }}}
        {{- end }}
        {{- if $cloud }}
        {{- with $values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- end }}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        ports:
        {{- range .ports }}
        - {name: {{ .name }}, containerPort: {{ .number }}}
        {{- end }}
        {{- $port := (first .ports).name }}
        # Fails only if an internal loop is stuck, not during an outage: a restart would not help and would lose the caches.
        livenessProbe:
          httpGet: {path: /healthz, port: {{ $port }}}
          initialDelaySeconds: 30
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 3
        # A standby with warm caches is ready. Otherwise a rollout could stop the leader before a standby is available.
        readinessProbe:
          httpGet: {path: /readyz, port: {{ $port }}}
          periodSeconds: 5
          timeoutSeconds: 5
        volumeMounts:
        {{- if $values.separateTarget }}
        - {name: target, mountPath: /var/run/millwright/target, readOnly: true}
        {{- end }}
        {{- if $sidecar }}
        - {name: driver, mountPath: /run/driver}
        {{- end }}
        - {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
        resources: {{- toYaml .resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
      {{- if $sidecar }}
      -
        {{- include "millwright.driverContainer" .root | nindent 8 }}
      {{- end }}
      volumes:
      {{- if $values.separateTarget }}
      - name: target
        projected:
          defaultMode: 288 # 0440
          sources:
          - secret: {name: target-kubeconfig, items: [{key: kubeconfig, path: kubeconfig}]}
          - secret: {name: target-token, items: [{key: token, path: token}]}
      {{- end }}
      {{- if $sidecar }}
      - name: driver
        emptyDir: {medium: Memory, sizeLimit: 1Mi}
      {{- end }}
      # The token that a kubelet would otherwise mount into every container.
      - name: account
        projected:
          defaultMode: 288 # 0440
          sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3607}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
      {{- if $cloud }}
      {{- with $values.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- toYaml $labels | nindent 4 }}
spec:
  maxUnavailable: 1
  # Pods are ready only after the caches are synced. An outage of the API server must not block evictions.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- toYaml $labels | nindent 6 }}
{{- end }}
