{{- define "millwright.driverKind" -}}
{{- $kinds := list "aws" "aws-own" "openstack" "own" "virtual" -}}
{{- if not (has .Values.driver.kind $kinds) -}}
{{- fail (printf "driver.kind: %q is not a driver: set it to one of %s" .Values.driver.kind (join ", " $kinds)) -}}
{{- end -}}
{{- .Values.driver.kind -}}
{{- end }}

{{- /* The image of the driver's container. */}}
{{- define "millwright.driverImage" -}}
{{- $ours := dict "aws-own" "millwright-driver-aws" "openstack" "millwright-driver-openstack" "virtual" "millwright-dev" -}}
{{- $repository := .Values.driver.image.repository | default (get $ours .Values.driver.kind) -}}
{{- $tag := .Values.driver.image.tag | default (ternary .Chart.AppVersion "" (hasKey $ours .Values.driver.kind)) -}}
{{- required "driver.image.repository: set the image of your driver" $repository }}:{{ required "driver.image.tag: set the version of your driver" $tag }}
{{- end }}

{{- /* The cloud's driver as a container of its own, on a socket that only the same user may open. It is given no token of the cluster. */}}
{{- define "millwright.driverContainer" -}}
name: driver
image: {{ include "millwright.driverImage" . }}
{{- if .Values.driver.args }}
args: {{- toYaml .Values.driver.args | nindent 0 }}
{{- else }}
args:
{{- if eq .Values.driver.kind "virtual" }}
- virtual-cloud
{{- end }}
- --listen=unix:/run/driver/driver.sock
{{- if eq .Values.driver.kind "virtual" }}
- --node-monitor-grace-period=0s
{{- end }}
{{- end }}
{{- with .Values.driver.env }}
env: {{- toYaml . | nindent 0 }}
{{- end }}
volumeMounts:
- {name: driver, mountPath: /run/driver}
{{- if eq .Values.driver.kind "virtual" }}
- {name: account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- with .Values.driver.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- $probed := dict "aws-own" "/millwright-driver-aws" "openstack" "/millwright-driver-openstack" }}
{{- with get $probed .Values.driver.kind }}
livenessProbe:
  exec: {command: [{{ . }}, "--probe=unix:/run/driver/driver.sock"]}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 3
{{- end }}
resources: {{- toYaml .Values.driver.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
