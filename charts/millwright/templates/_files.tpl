{{- /* The objects of a file that is the same in deploy/, in the namespace of the release. */}}
{{- define "millwright.file" }}
{{- $namespace := .root.Release.Namespace }}
{{- $namespaced := list "Role" "RoleBinding" "Service" "ServiceMonitor" "PrometheusRule" "NetworkPolicy" }}
{{- $text := .root.Files.Get .path | required (printf "%s is not in the chart" .path) }}
{{- range $document := splitList "\n---\n" (replace "millwright-system" $namespace $text) }}
{{- $object := fromYaml $document }}
{{- if and (has $object.kind $namespaced) (not $object.metadata.namespace) }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
