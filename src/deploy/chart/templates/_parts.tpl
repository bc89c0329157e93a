{{- define "acp.selector" -}}
app.kubernetes.io/name: agent-control-plane
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "acp.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "acp.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "acp.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- /* Settings of the pods and of the Job. */ -}}
{{- define "acp.settings" -}}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
- name: DATABASE_URL
  valueFrom: { secretKeyRef: { name: {{ .Values.secrets.databaseUrl.name }}, key: {{ .Values.secrets.databaseUrl.key }} } }
{{- with .Values.secrets.databaseDirectUrl }}
- { name: ACP_DATABASE_POOLER, value: transaction }
- name: ACP_DATABASE_DIRECT_URL
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}
- name: ACP_SIGNING_KEY
  valueFrom: { secretKeyRef: { name: {{ .Values.secrets.signingKey.name }}, key: {{ .Values.secrets.signingKey.key }} } }
- name: ACP_ENCRYPTION_KEY
  valueFrom: { secretKeyRef: { name: {{ .Values.secrets.encryptionKey.name }}, key: {{ .Values.secrets.encryptionKey.key }} } }
- name: ACP_ADMIN_KEY
  valueFrom: { secretKeyRef: { name: {{ .Values.secrets.adminKey.name }}, key: {{ .Values.secrets.adminKey.key }} } }
{{- end -}}

{{- define "acp.volumes" -}}
- name: data
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- end -}}

{{- define "acp.mounts" -}}
- name: data
  mountPath: /var/lib/agent-control-plane
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "acp.scheme" -}}
port: http, scheme: {{ if .Values.tls.secretName }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{- /* The service bounds requests itself. Streams pass as they come, and stay open while nothing is sent. */ -}}
{{- define "acp.streams" -}}
nginx.ingress.kubernetes.io/proxy-buffering: "off"
nginx.ingress.kubernetes.io/proxy-body-size: "0"
nginx.ingress.kubernetes.io/proxy-read-timeout: "3600"
nginx.ingress.kubernetes.io/proxy-send-timeout: "3600"
{{- with .Values.ingress.annotations }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "acp.class" -}}
ingressClassName: {{ .Values.ingress.className }}
{{- if .Values.ingress.tlsSecretName }}
tls:
  - secretName: {{ .Values.ingress.tlsSecretName }}
    hosts:
      - {{ .Values.ingress.host | quote }}
      {{- if .Values.ingress.grpcHost }}
      - {{ .Values.ingress.grpcHost | quote }}
      {{- end }}
{{- end }}
{{- end -}}
