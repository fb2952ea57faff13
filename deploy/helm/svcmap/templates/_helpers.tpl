{{- define "svcmap.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "svcmap.configMap" -}}
{{ .Values.existingConfigMap | default "svcmap" }}
{{- end }}

{{- define "svcmap.metricsPort" -}}
{{ .Values.config.metricsBindAddress | splitList ":" | last }}
{{- end }}

{{- define "svcmap.healthzPort" -}}
{{ .Values.config.healthzBindAddress | splitList ":" | last }}
{{- end }}
