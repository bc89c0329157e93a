#!/bin/sh
# Runs once, when the database's volume is empty: creates the owner, who migrates, and the login that serves.
set -eu
psql -v ON_ERROR_STOP=1 -v owner_password="$OWNER_PASSWORD" -v service_password="$SERVICE_PASSWORD" -U postgres <<'END'
create role acp_owner login password :'owner_password';
create role acp_service login password :'service_password';
create database acp owner acp_owner;
revoke all on database acp from public;
grant connect on database acp to acp_service;
END
