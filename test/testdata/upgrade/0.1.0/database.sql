--
-- PostgreSQL database dump
--


-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: refuse_change(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  raise exception 'table % takes inserts only', tg_table_name using errcode = 'insufficient_privilege';
end $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: agent; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.agent (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    created_seq bigint NOT NULL,
    resource jsonb NOT NULL,
    status smallint NOT NULL,
    trust_tenths smallint NOT NULL,
    registered_at_ms bigint NOT NULL,
    deactivated_at_ms bigint
);


--
-- Name: api_key; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.api_key (
    key_id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    role smallint NOT NULL,
    agent_id text COLLATE pg_catalog."C",
    prefix text NOT NULL,
    secret_hash bytea NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    revoked_at_ms bigint,
    ended_with_agent boolean NOT NULL,
    owner text,
    created_by text COLLATE pg_catalog."C"
);


--
-- Name: authority; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.authority (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    agent_id text COLLATE pg_catalog."C",
    grantor_agent_id text COLLATE pg_catalog."C",
    sealed jsonb NOT NULL,
    created_seq bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    ended_at_ms bigint,
    uses bigint NOT NULL,
    secret_hash bytea
);


--
-- Name: department; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.department (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    department_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    description text NOT NULL,
    created_at_ms bigint NOT NULL,
    created_seq bigint NOT NULL
);


--
-- Name: department_member; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.department_member (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    department_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: escalation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.escalation (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    escalation_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    status smallint NOT NULL,
    action_digest text NOT NULL,
    created_seq bigint NOT NULL,
    resolved_seq bigint,
    resolved_at_ms bigint,
    resolved_by text,
    note text,
    used_by text,
    used_at_ms bigint,
    expires_at_ms bigint NOT NULL,
    asked integer NOT NULL,
    asked_by text[] NOT NULL,
    updated_seq bigint,
    replaced_by text,
    extended_until_ms bigint,
    edited_arguments text,
    edited_from text COLLATE pg_catalog."C"
);


--
-- Name: incident; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.incident (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    incident_id text NOT NULL COLLATE pg_catalog."C",
    kind smallint NOT NULL,
    agent_id text NOT NULL COLLATE pg_catalog."C",
    revocation_id text NOT NULL COLLATE pg_catalog."C",
    summary text NOT NULL,
    reason text NOT NULL,
    created_by text NOT NULL,
    created_at_ms bigint NOT NULL,
    created_seq bigint NOT NULL
);


--
-- Name: ledger_entry; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledger_entry (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    kind smallint NOT NULL,
    entry_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text COLLATE pg_catalog."C",
    action_type text COLLATE pg_catalog."C",
    decision smallint,
    ref_id text COLLATE pg_catalog."C",
    leaf_hash bytea NOT NULL,
    subtree_hashes bytea,
    body text NOT NULL COLLATE pg_catalog."C",
    session_id text COLLATE pg_catalog."C",
    principal_id text COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000');
ALTER TABLE ONLY public.ledger_entry ALTER COLUMN body SET STORAGE EXTERNAL;


--
-- Name: ledger_head; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledger_head (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    frontier bytea NOT NULL,
    last_at_ms bigint NOT NULL
)
WITH (fillfactor='10');


--
-- Name: mandate_test; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mandate_test (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    mandate_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    suite text NOT NULL,
    created_at_ms bigint NOT NULL
);


--
-- Name: mandate_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mandate_version (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    mandate_id text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    definition jsonb NOT NULL,
    digest text NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    created_seq bigint NOT NULL,
    archived boolean NOT NULL,
    pack text COLLATE pg_catalog."C"
);


--
-- Name: mcp_approved_call; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mcp_approved_call (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    decision_id text NOT NULL COLLATE pg_catalog."C",
    call_digest text NOT NULL COLLATE pg_catalog."C",
    status smallint NOT NULL,
    lease_until_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    sealed_result bytea,
    created_at_ms bigint NOT NULL
);
ALTER TABLE ONLY public.mcp_approved_call ALTER COLUMN sealed_result SET STORAGE EXTERNAL;


--
-- Name: mcp_definition; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mcp_definition (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    server text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    definition text NOT NULL,
    digest text NOT NULL,
    first_seen_at_ms bigint NOT NULL,
    accepted_by text COLLATE pg_catalog."C",
    accepted_at_ms bigint,
    kind text DEFAULT 'tool'::text NOT NULL COLLATE pg_catalog."C",
    stateless_digest text,
    is_whole boolean DEFAULT false NOT NULL
);


--
-- Name: mcp_server; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mcp_server (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    url text,
    command text,
    args text[] NOT NULL,
    env_names text[] NOT NULL,
    sealed_env bytea NOT NULL,
    header_names text[] NOT NULL,
    sealed_headers bytea NOT NULL,
    quarantine boolean NOT NULL,
    revision integer NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    pass_methods text[] DEFAULT '{}'::text[] NOT NULL,
    pass_meta text[] DEFAULT '{}'::text[] NOT NULL,
    drift_seconds integer,
    idle_seconds integer DEFAULT 300 NOT NULL,
    scrub text[] DEFAULT '{}'::text[] NOT NULL
);


--
-- Name: mcp_task; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.mcp_task (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    server text NOT NULL COLLATE pg_catalog."C",
    task_digest text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    created_at_ms bigint NOT NULL
);


--
-- Name: mcp_tool; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.mcp_tool AS
 SELECT mcp_definition.workspace_id,
    mcp_definition.server,
    mcp_definition.name,
    mcp_definition.version,
    mcp_definition.definition,
    mcp_definition.digest,
    mcp_definition.first_seen_at_ms,
    mcp_definition.accepted_by,
    mcp_definition.accepted_at_ms
   FROM public.mcp_definition
  WHERE (mcp_definition.kind = 'tool'::text);


--
-- Name: pack; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.pack (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    applied_digest text NOT NULL
);


--
-- Name: person; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.person (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    issuer text NOT NULL COLLATE pg_catalog."C",
    subject text NOT NULL COLLATE pg_catalog."C",
    email text,
    display_name text,
    signed_in_at_ms bigint NOT NULL
);


--
-- Name: personal_value; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.personal_value (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    value_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    sealed_value bytea NOT NULL,
    mark bytea NOT NULL,
    created_at_ms bigint NOT NULL
);


--
-- Name: redaction_settings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.redaction_settings (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    restore_values boolean NOT NULL,
    allow_media boolean NOT NULL,
    disabled_kinds text[] NOT NULL,
    sealed_private bytea NOT NULL,
    revision bigint NOT NULL
);


--
-- Name: redaction_webhook; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.redaction_webhook (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL,
    is_active boolean NOT NULL,
    created_at_ms bigint NOT NULL,
    sealed_secret bytea
);


--
-- Name: revocation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.revocation (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    revocation_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    key_id text NOT NULL,
    body text NOT NULL,
    signature bytea NOT NULL
);


--
-- Name: schema_migration; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_migration (
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: sign_in; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sign_in (
    secret_hash bytea NOT NULL,
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    role smallint NOT NULL,
    person boolean NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL
);


--
-- Name: tool_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tool_version (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    description text NOT NULL,
    input_schema jsonb NOT NULL,
    digest text NOT NULL,
    source smallint NOT NULL,
    registered_at_ms bigint NOT NULL
);


--
-- Name: used_choice; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.used_choice (
    choice_hash bytea NOT NULL,
    expires_at_ms bigint NOT NULL
);


--
-- Name: webhook; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL,
    events text[] NOT NULL,
    is_active boolean NOT NULL,
    created_at_ms bigint NOT NULL,
    sealed_secret bytea NOT NULL,
    sealed_old_secret bytea,
    old_secret_until_ms bigint,
    next_seq bigint NOT NULL,
    revision integer NOT NULL,
    failures integer NOT NULL,
    failing_since_ms bigint,
    next_attempt_at_ms bigint,
    lease_owner text COLLATE pg_catalog."C",
    lease_until_ms bigint
)
WITH (fillfactor='50');


--
-- Name: webhook_delivery; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_delivery (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    webhook_id text NOT NULL COLLATE pg_catalog."C",
    delivery_no bigint NOT NULL,
    message_id text NOT NULL,
    event text NOT NULL,
    seq bigint,
    attempt integer NOT NULL,
    at_ms bigint NOT NULL,
    delivered boolean NOT NULL,
    status_code smallint,
    error text,
    duration_ms integer NOT NULL
);


--
-- Name: webhook_delivery_delivery_no_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.webhook_delivery ALTER COLUMN delivery_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.webhook_delivery_delivery_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: workspace; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.workspace (
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    default_decision smallint NOT NULL,
    unknown_tools smallint NOT NULL,
    initial_trust_tenths smallint NOT NULL,
    approval_ignores text[] NOT NULL,
    escalation_ttl_seconds integer NOT NULL,
    approval_ttl_seconds integer NOT NULL,
    four_eyes boolean NOT NULL,
    max_pending_escalations_per_agent integer NOT NULL,
    created_at_ms bigint NOT NULL,
    trust_seq bigint NOT NULL,
    key_ttl_days integer DEFAULT 0 NOT NULL
);


--
-- Data for Name: agent; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.agent (workspace_id, agent_id, created_seq, resource, status, trust_tenths, registered_at_ms, deactivated_at_ms) VALUES ('default', 'agt_agrbr3hdib2e3njsbmpvscdcoa', 2, '{"name": "example-agent", "agent_id": "agt_agrbr3hdib2e3njsbmpvscdcoa", "framework": "curl", "description": "Registered on first start, to try the control plane with.", "capabilities": [], "trust_tenths": 500, "denied_action_types": [], "allowed_action_types": []}', 1, 500, 1795714507585, NULL);
INSERT INTO public.agent (workspace_id, agent_id, created_seq, resource, status, trust_tenths, registered_at_ms, deactivated_at_ms) VALUES ('default', 'agt_agrbr3hi6j6kpitswpqkruuv5i', 21, '{"name": "leaver", "agent_id": "agt_agrbr3hi6j6kpitswpqkruuv5i", "framework": "", "description": "", "capabilities": [], "trust_tenths": 500, "denied_action_types": [], "allowed_action_types": []}', 3, 500, 1795714509042, 1795714509103);
INSERT INTO public.agent (workspace_id, agent_id, created_seq, resource, status, trust_tenths, registered_at_ms, deactivated_at_ms) VALUES ('default', 'agt_agrbr3hemv66dl43dxnisitws4', 3, '{"name": "clerk", "agent_id": "agt_agrbr3hemv66dl43dxnisitws4", "framework": "", "description": "", "capabilities": [], "trust_tenths": 500, "denied_action_types": [], "allowed_action_types": []}', 1, 408, 1795714507877, NULL);


--
-- Data for Name: api_key; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_key (key_id, workspace_id, name, role, agent_id, prefix, secret_hash, created_at_ms, expires_at_ms, revoked_at_ms, ended_with_agent, owner, created_by) VALUES ('key_agrbr3hb3b4zhpxd2q5t6ush6u', 'default', 'first admin', 1, NULL, '', '\x50afdc7abbaae4755c5571510aa17431d64ef6268b8f5f463f987d3ed8222cd7', 1795714507224, NULL, NULL, false, NULL, NULL);
INSERT INTO public.api_key (key_id, workspace_id, name, role, agent_id, prefix, secret_hash, created_at_ms, expires_at_ms, revoked_at_ms, ended_with_agent, owner, created_by) VALUES ('key_agrbr3hb3b4zhpxd2q5t6ush7a', 'default', 'of ann', 2, NULL, '', '\x71a3b4f888fdc7d4fe15b7c14f288d1a528cd4499b77c4e65b02aff73a6ebf24', 1795714507300, NULL, NULL, false, 'oidc:https://login.example.com|ann', 'oidc:https://login.example.com|ann');


--
-- Data for Name: authority; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.authority (workspace_id, id, kind, agent_id, grantor_agent_id, sealed, created_seq, created_at_ms, ended_at_ms, uses, secret_hash) VALUES ('default', 'ses_agrbr3hgeb6lrdqle4odi6dxpi', 'session', 'agt_agrbr3hemv66dl43dxnisitws4', NULL, '{"id": "ses_agrbr3hgeb6lrdqle4odi6dxpi", "kind": "session", "text": "audit", "agent_id": "agt_agrbr3hemv66dl43dxnisitws4", "max_uses": null, "expires_at_ms": 1795800908320}', 7, 1795714508320, NULL, 0, NULL);


--
-- Data for Name: department; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.department (workspace_id, department_id, name, description, created_at_ms, created_seq) VALUES ('default', 'dep_agrbr3hfxrzunh4ie4otdcrtre', 'accounts', '', 1795714508230, 6);


--
-- Data for Name: department_member; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: escalation; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq, resolved_seq, resolved_at_ms, resolved_by, note, used_by, used_at_ms, expires_at_ms, asked, asked_by, updated_seq, replaced_by, extended_until_ms, edited_arguments, edited_from) VALUES ('default', 'esc_agrbr3hhyfzsrcpnrywwg3463i', 'agt_agrbr3hemv66dl43dxnisitws4', 1, '139a108ad40bfd0d3cf174a9ef82ea276d8ca77e2fe5b685c51dc8503fc797b2', 11, NULL, NULL, NULL, NULL, NULL, NULL, 1795800908738, 1, '{key_agrbr3hb3b4zhpxd2q5t6ush6u}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq, resolved_seq, resolved_at_ms, resolved_by, note, used_by, used_at_ms, expires_at_ms, asked, asked_by, updated_seq, replaced_by, extended_until_ms, edited_arguments, edited_from) VALUES ('default', 'esc_agrbr3hinr4wtgcf6eg7b5s3em', 'agt_agrbr3hemv66dl43dxnisitws4', 1, 'cdc8ec0ada73761141545b4134db7ca071bf5f01cfa7b3ee12e6793ef9a40555', 14, NULL, NULL, NULL, NULL, NULL, NULL, 1795800908909, 1, '{key_agrbr3hb3b4zhpxd2q5t6ush6u}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq, resolved_seq, resolved_at_ms, resolved_by, note, used_by, used_at_ms, expires_at_ms, asked, asked_by, updated_seq, replaced_by, extended_until_ms, edited_arguments, edited_from) VALUES ('default', 'esc_agrbr3hitz2thcelhydpzhy26i', 'agt_agrbr3hemv66dl43dxnisitws4', 1, 'f1b22469af309e6c5ddf39a66d435e1bf6c7135dc5ac6562005d1f2ef3b59ab1', 17, NULL, NULL, NULL, NULL, NULL, NULL, 1795800908960, 1, '{key_agrbr3hb3b4zhpxd2q5t6ush6u}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq, resolved_seq, resolved_at_ms, resolved_by, note, used_by, used_at_ms, expires_at_ms, asked, asked_by, updated_seq, replaced_by, extended_until_ms, edited_arguments, edited_from) VALUES ('default', 'esc_agrbr3hiyr3xdcowshdb3vgsae', 'agt_agrbr3hemv66dl43dxnisitws4', 1, '531a6ca810c7408d762db6ee4b2e4e8d3add0a99ebded71a0dc1e0094f396fd6', 20, NULL, NULL, NULL, NULL, NULL, NULL, 1795800908996, 1, '{key_agrbr3hb3b4zhpxd2q5t6ush6u}', NULL, NULL, NULL, NULL, NULL);


--
-- Data for Name: incident; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.incident (workspace_id, incident_id, kind, agent_id, revocation_id, summary, reason, created_by, created_at_ms, created_seq) VALUES ('default', 'inc_agrbr3hjrzyzbhonurpialk5ra', 1, 'agt_agrbr3hi6j6kpitswpqkruuv5i', 'rev_agrbr3hjqj3m5glidltousygpu', 'agent leaver was revoked', 'left', 'key_agrbr3hb3b4zhpxd2q5t6ush6u', 1795714509103, 22);


--
-- Data for Name: ledger_entry; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 0, 1795714507224, 1, 'ent_agrbr3hcbj6xnor2o2gzpojoky', NULL, NULL, NULL, NULL, '\xe4f0cbde556323c709385b6b1b024b8c8ad2486482acbc9addee91c0c9920757', NULL, '{"at":"2026-11-26T17:35:07.224Z","by":"system","policy_digest":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","previous_root":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","previous_size":0,"seq":0,"signing_key":{"key_id":"Ek5oBh1oc1DFYn7dKZ1dtlS6onX6gKhLPY6DXx4jb-o","public_key":"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEbELTA9wwivLhkuC4vVcSmK24Q1yl\nTiK9t/mCI3rCvXTzZDpoSjR3B0py+jvGLw2E0GEATUFAyMahslfxlPn4wQ==\n-----END PUBLIC KEY-----\n"},"type":"workspace_created","workspace":{"approval_ignores":["traceparent","tracestate","trace_id","span_id","timestamp","mcp_session_id"],"approval_ttl_seconds":3600,"default_decision":"allow","escalation_ttl_seconds":86400,"four_eyes":false,"initial_trust_tenths":500,"key_ttl_days":0,"max_pending_escalations_per_agent":100,"name":"default","unknown_tools":"allow","workspace_id":"default"},"workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 1, 1795714507224, 1, 'ent_agrbr3hcbn33lpg3jsrpzvg57e', NULL, NULL, NULL, NULL, '\xed102829c71cc0df6a218dec12f5fcc1d8a04e6966bb78593359384cc7d78091', '\x8e3281fc02f8b2931cbc67521fba0109c44e809d53c0135f9e2d7fa5c1c8859a', '{"at":"2026-11-26T17:35:07.224Z","by":"system","key":{"agent_id":null,"key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","name":"first admin","prefix":"","role":1},"previous_root":"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=","previous_size":0,"seq":1,"type":"key_created","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 2, 1795714507585, 1, 'ent_agrbr3hdin5mxeruspj3to2j3a', NULL, NULL, NULL, NULL, '\x155f5813735ce330302e95d6bd7a5cb60f3e53bb4c0f0fc24dcc1d23cab7e706', NULL, '{"agent":{"agent_id":"agt_agrbr3hdib2e3njsbmpvscdcoa","allowed_action_types":[],"capabilities":[],"denied_action_types":[],"description":"Registered on first start, to try the control plane with.","framework":"curl","name":"example-agent","trust_tenths":500},"at":"2026-11-26T17:35:07.585Z","by":"system","previous_root":"jjKB/AL4spMcvGdSH7oBCcROgJ1TwBNfni1/pcHIhZo=","previous_size":2,"seq":2,"type":"agent_registered","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 3, 1795714507877, 1, 'ent_agrbr3heqf4inioddhlwd2ra34', NULL, NULL, NULL, NULL, '\x32a7b5e34d0e2c8dfda00b368a7d79743ac0f2dd91b7092f0f6f3fcfbcb5bc57', '\x9098155748b470180fa11ff2bada5f4a3a191c3f135703606e1dea822e9c6c488ecf0678b3bf8cd22f1f1d9c3de348758940c0111b14a1a07bf6289a764d128f', '{"agent":{"agent_id":"agt_agrbr3hemv66dl43dxnisitws4","allowed_action_types":[],"capabilities":[],"denied_action_types":[],"description":"","framework":"","name":"clerk","trust_tenths":500},"at":"2026-11-26T17:35:07.877Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","previous_root":"PhYCgmwiLQeglLvY4JsNfRvSpghqCHqgaclrtjNonPc=","previous_size":3,"seq":3,"type":"agent_registered","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 4, 1795714508092, 1, 'ent_agrbr3hfiz3kfe7tumzcrjnfwi', NULL, NULL, NULL, NULL, '\x738f3519840a83a1ff0651aaa8ea9d3b3795cfbdd92201249ad66f68056fdd7a', NULL, '{"at":"2026-11-26T17:35:08.092Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","previous_root":"js8GeLO/jNIvHx2cPeNIdYlAwBEbFKGge/YomnZNEo8=","previous_size":4,"seq":4,"tool":{"description":"","digest":"11c7cccdfb932bd814ea51aaf1fe11c39b2e0eb2b11921b7e1bb5bfa055eaad0","input_schema":{"properties":{"amount":{"type":"number"}},"type":"object"},"name":"pay","source":1,"version":1},"type":"tool_registered","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 5, 1795714508160, 1, 'ent_agrbr3hfr54dlpvyurxiwrtk4q', NULL, NULL, NULL, NULL, '\xd497602cb8e16cdbda29c24e7a8dc0b6ff828c97ff9627671c1f8bcd06558f85', '\x5132411cf0e20491e6a2a817a8da8c7ac5313dbe01f7fa1f9ffeb1a81123848e', '{"at":"2026-11-26T17:35:08.160Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandate":{"definition":{"description":"","mode":"enforce","name":"payments","priority":0,"rules":[{"conditions":{"match_action_types":["delete"]},"decision":"DECISION_BLOCK","type":"RULE_TYPE_ACTION"},{"conditions":{"match_action_types":["wire"]},"decision":"DECISION_ESCALATE","type":"RULE_TYPE_ACTION"}],"scope":"workspace"},"digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1},"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","previous_root":"E/X7p+h/gc04K+p66B4V4+YYfNRFwAXxSVVJKG/tftg=","previous_size":5,"seq":5,"type":"mandate_published","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 6, 1795714508230, 1, 'ent_agrbr3hfzn7kleeqvalmxmr22y', NULL, NULL, NULL, NULL, '\xc2360c9e84c0fdf08513de6873ad88522500be482bb2d2618915cfea035a36f5', NULL, '{"at":"2026-11-26T17:35:08.230Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","department":{"department_id":"dep_agrbr3hfxrzunh4ie4otdcrtre","description":"","name":"accounts"},"previous_root":"sC3vkTEbD91jh39EFpd6lT8RwbpPFfA+C7CSd/AN+rQ=","previous_size":6,"seq":6,"type":"department_created","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 7, 1795714508320, 1, 'ent_agrbr3hgff2ldkjdvv5thnjkfu', NULL, NULL, NULL, NULL, '\xb4da7bc1de20d5282c5db69cec56a24ecba94417d4799edddd55656980fc969a', '\xb7c7c837d76e4c40cd434b6b171e658d4b492836b20d67751b1a687f2de24df67e16f49a355f9609de178fee5b0e430f6d5d318ea06110236e3f34d833d817c329acee44ec0a00eba3edbf17ec55b57930ecc316bf19f4a91de7a0366fef1183', '{"at":"2026-11-26T17:35:08.320Z","authority":{"agent_id":"agt_agrbr3hemv66dl43dxnisitws4","expires_at_ms":1795800908320,"id":"ses_agrbr3hgeb6lrdqle4odi6dxpi","kind":"session","max_uses":null,"text":"audit"},"by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","previous_root":"uuWwvzLC9xi781BNAwBoQQrlXqbbMIti+x03wiYfqO0=","previous_size":7,"seq":7,"type":"authority_created","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 8, 1795714508416, 1, 'ent_agrbr3hgzf3gznd7ziui2ierlq', NULL, NULL, NULL, NULL, '\xd510dd6adb5d8517e6cfecf08815d4d3fd01d8cf13dc0e576413f6c4c0cec276', NULL, '{"at":"2026-11-26T17:35:08.416Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","kinds":{"person_name":1},"previous_root":"KazuROwKAOuj7b8X7FW1eTDswxa/GfSpHeegNm/vEYM=","previous_size":8,"seq":8,"type":"personal_values_added","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 9, 1795714508566, 0, 'dec_agrbr3hhcb4nfbxl2xhv5rwnpa', 'agt_agrbr3hemv66dl43dxnisitws4', 'read', 1, NULL, '\x1e6558cf702df60b0bb33f837481d32370c863e33b520aa3e45962073161b323', '\xf2445d1304a309304d772c5cecf297261f04d574a6fe7b9514781ab213bb8049', '{"action":{"action_content":"action 0","action_type":"read","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.566Z","authorisation":{"permissions":"admitted"},"decision":"allow","decision_id":"dec_agrbr3hhcb4nfbxl2xhv5rwnpa","decision_path":"default","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","previous_root":"p0UrCLOpT3xtahpOMokn3pOnzv3Die+EWbmkAhwHC0E=","previous_size":9,"seq":9,"trust":{"after":50.2,"before":50},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 10, 1795714508709, 0, 'dec_agrbr3hhur2etaiwyozwe7f5du', 'agt_agrbr3hemv66dl43dxnisitws4', 'delete', 2, NULL, '\x05ca0f9710bc1457871549b74939862a255c38106308949acf0aa2d2e2abfff9', NULL, '{"action":{"action_content":"action 1","action_type":"delete","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.709Z","authorisation":{"permissions":"admitted"},"decision":"block","decision_id":"dec_agrbr3hhur2etaiwyozwe7f5du","decision_path":"policy","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"block","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"Z+Kgkc+yO11VKFpuv7cmG+hzKXJTba4GkclFZYPE4KE=","previous_size":10,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`delete` is covered by the rule","rule":"rules[0]"}],"seq":10,"trust":{"after":48.2,"before":50.2},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 11, 1795714508738, 0, 'dec_agrbr3hhyfzsrcpnrywwg3463i', 'agt_agrbr3hemv66dl43dxnisitws4', 'wire', 3, 'new:139a108ad40bfd0d3cf174a9ef82ea276d8ca77e2fe5b685c51dc8503fc797b2:1795800908738', '\xe64d89109223d3ce5d4e20093f988f4b10a42709739e7ba9b058b6828b0c2183', '\x3f1143409e0f308df246164b0bb2612a669907ca27a45c4073b2496105096c87970e900a3f1efe006f64d82b72af04bb6ea91aff397f6e44c8a70c04b29a611f', '{"action":{"action_content":"action 2","action_type":"wire","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"action_digest":"139a108ad40bfd0d3cf174a9ef82ea276d8ca77e2fe5b685c51dc8503fc797b2","at":"2026-11-26T17:35:08.738Z","authorisation":{"permissions":"admitted"},"decision":"escalate","decision_id":"dec_agrbr3hhyfzsrcpnrywwg3463i","decision_path":"policy","escalation_expires_at":"2026-11-27T17:35:08.738Z","escalation_id":"esc_agrbr3hhyfzsrcpnrywwg3463i","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"escalate","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"sIHVPLSHA2K2bPgsceHNkoBsfIrPqzTg3na26bR45dI=","previous_size":11,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`wire` is covered by the rule","rule":"rules[1]"}],"seq":11,"trust":{"after":47.7,"before":48.2},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 12, 1795714508831, 0, 'dec_agrbr3hidn7zxb73ps4co6vcdi', 'agt_agrbr3hemv66dl43dxnisitws4', 'read', 1, NULL, '\xd6b336d5aa083881028df527dad2feccf8640dea74393e4ac953538461b4efd3', NULL, '{"action":{"action_content":"action 3","action_type":"read","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.831Z","authorisation":{"permissions":"admitted"},"decision":"allow","decision_id":"dec_agrbr3hidn7zxb73ps4co6vcdi","decision_path":"default","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","previous_root":"AUVsIl0dOCrdkHVMyb6iwGzA5U+YpMP5fuCLwy+B0K8=","previous_size":12,"seq":12,"trust":{"after":47.9,"before":47.7},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 13, 1795714508852, 0, 'dec_agrbr3hign723gxms4f4ty2gye', 'agt_agrbr3hemv66dl43dxnisitws4', 'delete', 2, NULL, '\xedebf4a5a498b9a51d0092b1f37aae909f22761dc261cf63628ada052ea778b5', '\x9f8be7fdb976e6b28189a4c7465fcbd5df1eb61b2cda8a98d683525122b3604f', '{"action":{"action_content":"action 4","action_type":"delete","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.852Z","authorisation":{"permissions":"admitted"},"decision":"block","decision_id":"dec_agrbr3hign723gxms4f4ty2gye","decision_path":"policy","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"block","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"+drN9d1n3yBd0Vdfbfvyoe1WnAutmR9TzYPDKT0g5A8=","previous_size":13,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`delete` is covered by the rule","rule":"rules[0]"}],"seq":13,"trust":{"after":45.9,"before":47.9},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 14, 1795714508909, 0, 'dec_agrbr3hinr4wtgcf6eg7b5s3em', 'agt_agrbr3hemv66dl43dxnisitws4', 'wire', 3, 'new:cdc8ec0ada73761141545b4134db7ca071bf5f01cfa7b3ee12e6793ef9a40555:1795800908909', '\xeaa37303f7d1aca0478faa9be7008e57b7a0c1132bd1e9c97a458523d47d140a', NULL, '{"action":{"action_content":"action 5","action_type":"wire","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"action_digest":"cdc8ec0ada73761141545b4134db7ca071bf5f01cfa7b3ee12e6793ef9a40555","at":"2026-11-26T17:35:08.909Z","authorisation":{"permissions":"admitted"},"decision":"escalate","decision_id":"dec_agrbr3hinr4wtgcf6eg7b5s3em","decision_path":"policy","escalation_expires_at":"2026-11-27T17:35:08.909Z","escalation_id":"esc_agrbr3hinr4wtgcf6eg7b5s3em","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"escalate","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"r+05ggFAcO4qz8eS6iOnr9QYjktqCQF/JrjI68Vk03o=","previous_size":14,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`wire` is covered by the rule","rule":"rules[1]"}],"seq":14,"trust":{"after":45.4,"before":45.9},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 15, 1795714508922, 0, 'dec_agrbr3hipbyifpixjyavwz6awq', 'agt_agrbr3hemv66dl43dxnisitws4', 'read', 1, NULL, '\x211ccea76266438954430a14124978c6e94dff38bb847aa3e756152898c7c374', '\x6b08976aa8ddc36ef184ee2e2392f2f932bbd37c7d715b21c84ab9ff2e0672035569765f850be2ac8ef91864f2446091b345228b8c0edfc7dd9a64761be60620349eabf35b6ca17434baf4ba8cad644f7571f717b8aa84b71cdd8c9061f2ac5ce6908844f102b94aaf91b803ae5212c5ee99a8c6b953197f857d30ab227c0a5b', '{"action":{"action_content":"action 6","action_type":"read","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.922Z","authorisation":{"permissions":"admitted"},"decision":"allow","decision_id":"dec_agrbr3hipbyifpixjyavwz6awq","decision_path":"default","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","previous_root":"v/fu5DKK/voEF/tmx/BvZPZHnn6mbjNhtuDh9tYhAZ8=","previous_size":15,"seq":15,"trust":{"after":45.6,"before":45.4},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 16, 1795714508941, 0, 'dec_agrbr3hirf4kzahezealokii7i', 'agt_agrbr3hemv66dl43dxnisitws4', 'delete', 2, NULL, '\xd5f2abc7490757dde8f683a3af9d0d5fde3ab4c5efbe810c6cd8235ce1822595', NULL, '{"action":{"action_content":"action 7","action_type":"delete","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.941Z","authorisation":{"permissions":"admitted"},"decision":"block","decision_id":"dec_agrbr3hirf4kzahezealokii7i","decision_path":"policy","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"block","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"5pCIRPECuUqvkbgDrlISxe6ZqMa5Uxl/hX0wqyJ8Cls=","previous_size":16,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`delete` is covered by the rule","rule":"rules[0]"}],"seq":16,"trust":{"after":43.6,"before":45.6},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 17, 1795714508960, 0, 'dec_agrbr3hitz2thcelhydpzhy26i', 'agt_agrbr3hemv66dl43dxnisitws4', 'wire', 3, 'new:f1b22469af309e6c5ddf39a66d435e1bf6c7135dc5ac6562005d1f2ef3b59ab1:1795800908960', '\x1eae0728a7f6e08a469f6f7905f7dcbbb030d99156a991425af444ef3ed5e15b', '\x6e7641e42479768d5db08cd5315c57552b3f90cc3e6272879fb1cdadccc25970', '{"action":{"action_content":"action 8","action_type":"wire","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"action_digest":"f1b22469af309e6c5ddf39a66d435e1bf6c7135dc5ac6562005d1f2ef3b59ab1","at":"2026-11-26T17:35:08.960Z","authorisation":{"permissions":"admitted"},"decision":"escalate","decision_id":"dec_agrbr3hitz2thcelhydpzhy26i","decision_path":"policy","escalation_expires_at":"2026-11-27T17:35:08.960Z","escalation_id":"esc_agrbr3hitz2thcelhydpzhy26i","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"escalate","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"LsDfqncdt8OZ1rMmdEyxiF0c7swH7dE++AfcDJDKpJY=","previous_size":17,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`wire` is covered by the rule","rule":"rules[1]"}],"seq":17,"trust":{"after":43.1,"before":43.6},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 18, 1795714508977, 0, 'dec_agrbr3hiv553lk4tluz4nchm2a', 'agt_agrbr3hemv66dl43dxnisitws4', 'read', 1, NULL, '\x9ed4809a4d21d7c8e2747abb577c6c3dc9723ec452030c0348a4f29051b338cc', NULL, '{"action":{"action_content":"action 9","action_type":"read","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.977Z","authorisation":{"permissions":"admitted"},"decision":"allow","decision_id":"dec_agrbr3hiv553lk4tluz4nchm2a","decision_path":"default","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","previous_root":"1MdwzujLo3AUxd+FcXF+/lmYnAhcoFfDgJ1Jta04Ht0=","previous_size":18,"seq":18,"trust":{"after":43.3,"before":43.1},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 19, 1795714508987, 0, 'dec_agrbr3hixfywlcejlzel2nucii', 'agt_agrbr3hemv66dl43dxnisitws4', 'delete', 2, NULL, '\xcd7467bf09bcef15cb56a596a156ad09ede87fccc976747d3b03aed2cb781bd0', '\x6c7326971a5276c74232071c0d9c22bebaeffe418f401d3e78f2f034175f538a06a20b9f446bb52f11eddf47b4bebb6eb0f8e52e5c2c0cde9c21259909704edf', '{"action":{"action_content":"action 10","action_type":"delete","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"at":"2026-11-26T17:35:08.987Z","authorisation":{"permissions":"admitted"},"decision":"block","decision_id":"dec_agrbr3hixfywlcejlzel2nucii","decision_path":"policy","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"block","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"N4csaGXXh7ELCM/PFjkTLi9ik/xe974EeLt0z2Ngrcg=","previous_size":19,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`delete` is covered by the rule","rule":"rules[0]"}],"seq":19,"trust":{"after":41.3,"before":43.3},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 20, 1795714508996, 0, 'dec_agrbr3hiyr3xdcowshdb3vgsae', 'agt_agrbr3hemv66dl43dxnisitws4', 'wire', 3, 'new:531a6ca810c7408d762db6ee4b2e4e8d3add0a99ebded71a0dc1e0094f396fd6:1795800908996', '\xf7fbe82395b5859aafe61a0d8badbaf34da34310c077dde60dcbe90af1a92ce6', NULL, '{"action":{"action_content":"action 11","action_type":"wire","agent_id":"agt_agrbr3hemv66dl43dxnisitws4","agent_name":"clerk"},"action_digest":"531a6ca810c7408d762db6ee4b2e4e8d3add0a99ebded71a0dc1e0094f396fd6","at":"2026-11-26T17:35:08.996Z","authorisation":{"permissions":"admitted"},"decision":"escalate","decision_id":"dec_agrbr3hiyr3xdcowshdb3vgsae","decision_path":"policy","escalation_expires_at":"2026-11-27T17:35:08.996Z","escalation_id":"esc_agrbr3hiyr3xdcowshdb3vgsae","key_id":"key_agrbr3hb3b4zhpxd2q5t6ush6u","mandates":[{"decision":"escalate","digest":"e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","version":1}],"policy_digest":"7e015a276d7f25e41fd2d5c04da61fbd14031d848bea311c5cefdd7eabde934e","policy_name":"payments","previous_root":"K2HRIcfG6pQNAo8oeDLz7pNWG+sy79A/EpTGy70HLxQ=","previous_size":20,"reasons":[{"code":"ACTION_MATCHED","mandate_id":"mnd_agrbr3hfpjyzbmmrkfriw4apyu","mandate_name":"payments","message":"`wire` is covered by the rule","rule":"rules[1]"}],"seq":20,"trust":{"after":40.8,"before":41.3},"type":"decision","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 21, 1795714509042, 1, 'ent_agrbr3hi7j23xew4jc6pe4paxa', NULL, NULL, NULL, NULL, '\xce4ee0e2b62ac804c45c611906994dfd2a3d7e76a366d06626b3fb3a06a54c7b', '\x8b7cf40ec5c75ae75e37f3f34620decfb5375d7719caa07037aaf1a6fab821b9', '{"agent":{"agent_id":"agt_agrbr3hi6j6kpitswpqkruuv5i","allowed_action_types":[],"capabilities":[],"denied_action_types":[],"description":"","framework":"","name":"leaver","trust_tenths":500},"at":"2026-11-26T17:35:09.042Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","previous_root":"Q/2/9kRrPX8oOsOFPB9RPAzjIfMP0VnFMXS+5UKvNwc=","previous_size":21,"seq":21,"type":"agent_registered","workspace_id":"default"}', NULL, NULL);
INSERT INTO public.ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, subtree_hashes, body, session_id, principal_id) VALUES ('default', 22, 1795714509103, 1, 'ent_agrbr3hjvn5ype5b3yxuxddebm', 'agt_agrbr3hi6j6kpitswpqkruuv5i', NULL, NULL, NULL, '\xda449b9723b4ba7756b4f8558331cdb9e5828b73626355ea1b65d80cc7961841', NULL, '{"agent_id":"agt_agrbr3hi6j6kpitswpqkruuv5i","at":"2026-11-26T17:35:09.103Z","by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","certificate_digest":"f49f13c40f6946649dc79b08413232693ca9d02c5a55a4e6bbda1bd495268dcf","ended":{"credentials":[],"federation_tokens":[],"grants_given":[],"grants_received":[],"intent_contracts":[],"mcp_tool_policies":[],"sessions":[],"temporal_windows":[]},"previous_root":"IVlFOJVvABiSSYL6fqFikhGh4WjVLnwKr0QITLpoKIQ=","previous_size":22,"reason":"left","revocation_id":"rev_agrbr3hjqj3m5glidltousygpu","seq":22,"type":"agent_revoked","workspace_id":"default"}', NULL, NULL);


--
-- Data for Name: ledger_head; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.ledger_head (workspace_id, seq, frontier, last_at_ms) VALUES ('default', 23, '\xe6908844f102b94aaf91b803ae5212c5ee99a8c6b953197f857d30ab227c0a5b06a20b9f446bb52f11eddf47b4bebb6eb0f8e52e5c2c0cde9c21259909704edf8b7cf40ec5c75ae75e37f3f34620decfb5375d7719caa07037aaf1a6fab821b9da449b9723b4ba7756b4f8558331cdb9e5828b73626355ea1b65d80cc7961841', 1795714509103);


--
-- Data for Name: mandate_test; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: mandate_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.mandate_version (workspace_id, mandate_id, version, definition, digest, created_at_ms, updated_at_ms, created_seq, archived, pack) VALUES ('default', 'mnd_agrbr3hfpjyzbmmrkfriw4apyu', 1, '{"mode": "enforce", "name": "payments", "rules": [{"type": "RULE_TYPE_ACTION", "decision": "DECISION_BLOCK", "conditions": {"match_action_types": ["delete"]}}, {"type": "RULE_TYPE_ACTION", "decision": "DECISION_ESCALATE", "conditions": {"match_action_types": ["wire"]}}], "scope": "workspace", "priority": 0, "description": ""}', 'e8972edf9e84ab3508a373359d5da69f1e7a6418c43601f46901c8f770c3a5fa', 1795714508160, 1795714508160, 5, false, NULL);


--
-- Data for Name: mcp_approved_call; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: mcp_definition; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: mcp_server; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: mcp_task; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: pack; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: person; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.person (workspace_id, issuer, subject, email, display_name, signed_in_at_ms) VALUES ('default', 'https://login.example.com', 'ann', 'ann@example.com', 'Ann Example', 1795714507000);
INSERT INTO public.person (workspace_id, issuer, subject, email, display_name, signed_in_at_ms) VALUES ('default', 'https://login.example.com', 'ben', NULL, NULL, 1795714507000);

--
-- Data for Name: personal_value; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.personal_value (workspace_id, value_id, kind, sealed_value, mark, created_at_ms) VALUES ('default', 'pv_agrbr3hgnfynfa6wrfxofqp46y', 'person_name', '\xdb5542e764a23f8f19e99ca9f6365f2f28bb2ad600c4eaf1cd7cfab7c29be6c265ce5239988515c5c6e00da21f27a4a146', '\xfed67dc05ac6ba6fbdedeab03248803215d7e0b9543a6d34d4b954b3d602b147', 1795714508416);


--
-- Data for Name: redaction_settings; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.redaction_settings (workspace_id, restore_values, allow_media, disabled_kinds, sealed_private, revision) VALUES ('default', false, false, '{}', '\x2a4a68c6d3d2299db92739e869e59c3b058bf754f6b9609fbc47dc92574c9ffdae90237585c1074f', 1);


--
-- Data for Name: redaction_webhook; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: revocation; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.revocation (workspace_id, revocation_id, agent_id, seq, key_id, body, signature) VALUES ('default', 'rev_agrbr3hjqj3m5glidltousygpu', 'agt_agrbr3hi6j6kpitswpqkruuv5i', 22, 'Ek5oBh1oc1DFYn7dKZ1dtlS6onX6gKhLPY6DXx4jb-o', '{"agent_id":"agt_agrbr3hi6j6kpitswpqkruuv5i","agent_name":"leaver","counts":{"credentials":0,"federation_tokens":0,"grants_given":0,"grants_received":0,"intent_contracts":0,"mcp_tool_policies":0,"sessions":0,"temporal_windows":0},"key_id":"Ek5oBh1oc1DFYn7dKZ1dtlS6onX6gKhLPY6DXx4jb-o","ledger_seq":22,"reason":"left","revocation_id":"rev_agrbr3hjqj3m5glidltousygpu","revoked":{"credentials":[],"federation_tokens":[],"grants_given":[],"grants_received":[],"intent_contracts":[],"mcp_tool_policies":[],"sessions":[],"temporal_windows":[]},"revoked_at":"2026-11-26T17:35:09.103Z","revoked_by":"key_agrbr3hb3b4zhpxd2q5t6ush6u","workspace_id":"default"}', '\x3045022100f05ed345a886d2bd0117c6db71fad5d2fae693a1fadfc34fa0932c3eb3588e9502204b0f43dbc3368f7d9f1b574da27dcaea8a3a417605420248c34dcb9aff559bf0');


--
-- Data for Name: schema_migration; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schema_migration (name, applied_at) VALUES ('0001-schema', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0002-packs', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0003-mandate-tests', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0004-summaries', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0004-sign-ins', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0005-sessions', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0006-mcp-servers', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0007-mcp-server-limits', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0008-approved-calls', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0009-mcp-tasks', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0010-mcp-definitions', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0011-used-choices', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0012-principals', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0013-key-ttls', '2026-11-26 17:35:02.860839+00');
INSERT INTO public.schema_migration (name, applied_at) VALUES ('0014-people', '2026-11-26 17:35:02.860839+00');


--
-- Data for Name: sign_in; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: tool_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tool_version (workspace_id, name, version, description, input_schema, digest, source, registered_at_ms) VALUES ('default', 'pay', 1, '', '{"type": "object", "properties": {"amount": {"type": "number"}}}', '11c7cccdfb932bd814ea51aaf1fe11c39b2e0eb2b11921b7e1bb5bfa055eaad0', 1, 1795714508092);


--
-- Data for Name: used_choice; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: webhook; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: webhook_delivery; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: workspace; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.workspace (workspace_id, name, default_decision, unknown_tools, initial_trust_tenths, approval_ignores, escalation_ttl_seconds, approval_ttl_seconds, four_eyes, max_pending_escalations_per_agent, created_at_ms, trust_seq, key_ttl_days) VALUES ('default', 'default', 1, 1, 500, '{traceparent,tracestate,trace_id,span_id,timestamp,mcp_session_id}', 86400, 3600, false, 100, 1795714507224, 23, 0);


--
-- Name: webhook_delivery_delivery_no_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.webhook_delivery_delivery_no_seq', 1, false);


--
-- Name: agent agent_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent
    ADD CONSTRAINT agent_pkey PRIMARY KEY (workspace_id, agent_id);


--
-- Name: api_key api_key_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (key_id);


--
-- Name: api_key api_key_secret_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_secret_hash_key UNIQUE (secret_hash);


--
-- Name: authority authority_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authority
    ADD CONSTRAINT authority_pkey PRIMARY KEY (workspace_id, id);


--
-- Name: authority authority_secret_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.authority
    ADD CONSTRAINT authority_secret_hash_key UNIQUE (secret_hash);


--
-- Name: department_member department_member_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.department_member
    ADD CONSTRAINT department_member_pkey PRIMARY KEY (workspace_id, department_id, agent_id);


--
-- Name: department department_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.department
    ADD CONSTRAINT department_pkey PRIMARY KEY (workspace_id, department_id);


--
-- Name: escalation escalation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.escalation
    ADD CONSTRAINT escalation_pkey PRIMARY KEY (workspace_id, escalation_id);


--
-- Name: incident incident_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.incident
    ADD CONSTRAINT incident_pkey PRIMARY KEY (workspace_id, incident_id);


--
-- Name: ledger_entry ledger_entry_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger_entry
    ADD CONSTRAINT ledger_entry_pkey PRIMARY KEY (workspace_id, seq);


--
-- Name: ledger_head ledger_head_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger_head
    ADD CONSTRAINT ledger_head_pkey PRIMARY KEY (workspace_id);


--
-- Name: mandate_test mandate_test_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mandate_test
    ADD CONSTRAINT mandate_test_pkey PRIMARY KEY (workspace_id, mandate_id, version);


--
-- Name: mandate_version mandate_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mandate_version
    ADD CONSTRAINT mandate_version_pkey PRIMARY KEY (workspace_id, mandate_id, version);


--
-- Name: mcp_approved_call mcp_approved_call_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mcp_approved_call
    ADD CONSTRAINT mcp_approved_call_pkey PRIMARY KEY (workspace_id, agent_id, decision_id);


--
-- Name: mcp_definition mcp_definition_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mcp_definition
    ADD CONSTRAINT mcp_definition_pkey PRIMARY KEY (workspace_id, server, kind, name, version);


--
-- Name: mcp_server mcp_server_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mcp_server
    ADD CONSTRAINT mcp_server_pkey PRIMARY KEY (workspace_id, name);


--
-- Name: mcp_task mcp_task_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.mcp_task
    ADD CONSTRAINT mcp_task_pkey PRIMARY KEY (workspace_id, server, task_digest, agent_id);


--
-- Name: pack pack_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.pack
    ADD CONSTRAINT pack_pkey PRIMARY KEY (workspace_id, name);


--
-- Name: person person_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.person
    ADD CONSTRAINT person_pkey PRIMARY KEY (workspace_id, issuer, subject);


--
-- Name: personal_value personal_value_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.personal_value
    ADD CONSTRAINT personal_value_pkey PRIMARY KEY (workspace_id, value_id);


--
-- Name: personal_value personal_value_workspace_id_mark_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.personal_value
    ADD CONSTRAINT personal_value_workspace_id_mark_key UNIQUE (workspace_id, mark);


--
-- Name: redaction_settings redaction_settings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.redaction_settings
    ADD CONSTRAINT redaction_settings_pkey PRIMARY KEY (workspace_id);


--
-- Name: redaction_webhook redaction_webhook_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.redaction_webhook
    ADD CONSTRAINT redaction_webhook_pkey PRIMARY KEY (workspace_id, webhook_id);


--
-- Name: revocation revocation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.revocation
    ADD CONSTRAINT revocation_pkey PRIMARY KEY (workspace_id, revocation_id);


--
-- Name: revocation revocation_workspace_id_agent_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.revocation
    ADD CONSTRAINT revocation_workspace_id_agent_id_key UNIQUE (workspace_id, agent_id);


--
-- Name: schema_migration schema_migration_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migration
    ADD CONSTRAINT schema_migration_pkey PRIMARY KEY (name);


--
-- Name: sign_in sign_in_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sign_in
    ADD CONSTRAINT sign_in_pkey PRIMARY KEY (secret_hash);


--
-- Name: tool_version tool_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tool_version
    ADD CONSTRAINT tool_version_pkey PRIMARY KEY (workspace_id, name, version);


--
-- Name: used_choice used_choice_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.used_choice
    ADD CONSTRAINT used_choice_pkey PRIMARY KEY (choice_hash);


--
-- Name: webhook_delivery webhook_delivery_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_delivery
    ADD CONSTRAINT webhook_delivery_pkey PRIMARY KEY (workspace_id, webhook_id, delivery_no);


--
-- Name: webhook webhook_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_pkey PRIMARY KEY (workspace_id, webhook_id);


--
-- Name: workspace workspace_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.workspace
    ADD CONSTRAINT workspace_pkey PRIMARY KEY (workspace_id);


--
-- Name: api_key_workspace; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX api_key_workspace ON public.api_key USING btree (workspace_id, key_id);


--
-- Name: authority_agent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX authority_agent ON public.authority USING btree (workspace_id, agent_id, kind, created_seq);


--
-- Name: authority_grantor; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX authority_grantor ON public.authority USING btree (workspace_id, grantor_agent_id, created_seq);


--
-- Name: authority_list; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX authority_list ON public.authority USING btree (workspace_id, kind, created_seq);


--
-- Name: authority_open; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX authority_open ON public.authority USING btree (workspace_id, created_seq) WHERE (ended_at_ms IS NULL);


--
-- Name: escalation_created; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_created ON public.escalation USING btree (workspace_id, created_seq);


--
-- Name: escalation_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_expiry ON public.escalation USING btree (workspace_id, expires_at_ms) WHERE (status = 1);


--
-- Name: escalation_resolved; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_resolved ON public.escalation USING btree (workspace_id, resolved_seq) WHERE (resolved_seq IS NOT NULL);


--
-- Name: escalation_status; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_status ON public.escalation USING btree (workspace_id, status, created_seq);


--
-- Name: escalation_updated; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_updated ON public.escalation USING btree (workspace_id, updated_seq) WHERE (updated_seq IS NOT NULL);


--
-- Name: escalation_usable; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX escalation_usable ON public.escalation USING btree (workspace_id, agent_id, created_seq) WHERE ((status = 2) AND (used_by IS NULL));


--
-- Name: incident_list; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX incident_list ON public.incident USING btree (workspace_id, created_seq);


--
-- Name: ledger_entry_agent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ledger_entry_agent ON public.ledger_entry USING btree (workspace_id, agent_id, seq) INCLUDE (kind, decision) WHERE (kind = ANY (ARRAY[0, 2]));


--
-- Name: ledger_entry_event; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ledger_entry_event ON public.ledger_entry USING btree (workspace_id, seq) INCLUDE (kind, decision) WHERE ((kind = 1) OR (decision >= 2));


--
-- Name: ledger_entry_id; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX ledger_entry_id ON public.ledger_entry USING btree (workspace_id, entry_id);


--
-- Name: ledger_entry_session; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ledger_entry_session ON public.ledger_entry USING btree (workspace_id, session_id, seq) WHERE (session_id IS NOT NULL);


--
-- Name: mcp_approved_call_expiry; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mcp_approved_call_expiry ON public.mcp_approved_call USING btree (expires_at_ms);


--
-- Name: mcp_task_agent; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX mcp_task_agent ON public.mcp_task USING btree (workspace_id, server, agent_id, created_at_ms);


--
-- Name: personal_value_created; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX personal_value_created ON public.personal_value USING btree (workspace_id, created_at_ms, value_id);


--
-- Name: revocation_list; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX revocation_list ON public.revocation USING btree (workspace_id, seq);


--
-- Name: sign_in_holder; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sign_in_holder ON public.sign_in USING btree (workspace_id, holder, created_at_ms);


--
-- Name: webhook_created; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_created ON public.webhook USING btree (workspace_id, created_at_ms, webhook_id);


--
-- Name: webhook_delivery_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX webhook_delivery_at ON public.webhook_delivery USING btree (at_ms);


--
-- Name: ledger_entry insert_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER insert_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();

ALTER TABLE public.ledger_entry ENABLE ALWAYS TRIGGER insert_only;


--
-- PostgreSQL database dump complete
--


