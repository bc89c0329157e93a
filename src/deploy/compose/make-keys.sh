#!/bin/sh
# Makes the keys and passwords of compose.yaml once, in `.data` beside this file: `keys.env`, and the files that containers read.
# Keep a copy elsewhere: without ACP_ENCRYPTION_KEY nobody reads what the database holds encrypted.
set -eu
umask 077
cd "$(dirname "$0")"
if [ -e .data/keys.env ]; then
  echo "there are keys in $PWD/.data; a second set would lock the database" >&2
  exit 1
fi
mkdir -p .data
secret() { openssl rand -hex 32; }

openssl ecparam -name prime256v1 -genkey -noout -out .data/signing-key.pem
metrics_token=$(secret)
printf %s "$metrics_token" > .data/metrics-token
cat > .data/keys.env.new <<END
COMPOSE_PROJECT_NAME=agent-control-plane
ACP_ENCRYPTION_KEY=$(secret)
ACP_ADMIN_KEY=$(secret)
ACP_METRICS_TOKEN=$metrics_token
POSTGRES_PASSWORD=$(secret)
OWNER_PASSWORD=$(secret)
SERVICE_PASSWORD=$(secret)
REDIS_PASSWORD=$(secret)
GRAFANA_PASSWORD=$(secret)
END
# Containers read these two as accounts of their own; the folder keeps everybody else of the host out.
chmod 0644 .data/signing-key.pem .data/metrics-token
mv .data/keys.env.new .data/keys.env
echo "made $PWD/.data/keys.env"
