import { randomBytes } from "node:crypto";
import { Pool } from "pg";
import { sealedFrom } from "../../src/authority/signing-key.ts";
import { startToolsServer, tool } from "../gateway/tools-server.ts";
import { createTestDatabase } from "../support/database.ts";
import { newPrivateKey } from "../support/harness.ts";
import { openLogOf } from "../support/open-log.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { openWires, type Wires } from "../support/wires.ts";
import { startReceiver } from "../webhook/receiver.ts";

/** A workspace with its first admin key. */
export interface Workspace {
  readonly id: string;
  readonly key: string;
}

/** The one running server of the run, its clients, and its database. */
export interface SharedService {
  readonly server: ServedHere;
  readonly wires: Wires;
  /** A URL on this machine that takes every webhook. */
  readonly receiver: string;
  /** The URL of an MCP server on this machine. */
  readonly mcp: string;
  /** Ids of the service's signing keys: the one in use, and a retired one. */
  readonly signingKeys: { readonly active: string; readonly old: string };
  /** A new workspace. */
  workspace(): Promise<Workspace>;
  /**
   * What a workspace has written: the end of its log, and how many rows of which content each table has. Two equal marks
   * mean that nothing was written between them. Trust, uses, also of keys, and how far a webhook got are left out: they are saved some
   * time after what they follow from.
   */
  mark(workspaceId: string): Promise<string>;
}

const TABLES = [
  ["api_key", "to_jsonb(t) - 'last_used_at_ms'"],
  ["person", "t"],
  ["person_invite", "t"],
  ["department", "t"],
  ["department_member", "t"],
  ["tool_version", "t"],
  ["mandate_version", "t"],
  ["mandate_test", "t"],
  ["escalation", "t"],
  ["ledger_entry", "t.seq"],
  ["agent", "(t.agent_id, t.resource, t.status, t.deactivated_at_ms)"],
  ["authority", "(t.id, t.sealed, t.ended_at_ms, t.secret_hash)"],
  ["revocation", "t"],
  ["incident", "t"],
  ["action_outcome", "t"],
  [
    "webhook",
    "(t.webhook_id, t.kind, t.holder, t.label, t.url, t.events, t.is_active, t.sealed_secret, t.sealed_old_secret)",
  ],
  ["webhook_delivery", "t"],
  ["notification_settings", "t"],
  ["notification_preference", "t"],
  ["slack_account", "t"],
  ["slack_code", "t"],
  ["redaction_settings", "t"],
  ["personal_value", "t"],
  ["redaction_webhook", "t"],
  ["mcp_server", "t"],
  ["mcp_tool", "t"],
  [
    "workspace",
    "(t.name, t.default_decision, t.initial_trust_tenths, t.approval_ignores, t.escalation_ttl_seconds, t.approval_ttl_seconds, t.four_eyes, t.max_pending_escalations_per_agent, t.key_ttl_days, t.halted, t.rate_limit_key, t.rate_limit_workspace, t.outcomes, t.outcome_timeout_seconds)",
  ],
] as const;

const MARK = [
  `select 'ledger_head' as part, seq::text as mark from ledger_head where workspace_id = $1`,
  // A workspace that was made by mistake would be none of those marked.
  `select 'workspaces made by name', count(*)::text from workspace where workspace_id !~ '^(default|ws-)'`,
  ...TABLES.map(
    ([table, columns]) =>
      `select '${table}', count(*) || ' ' || md5(coalesce(string_agg((${columns})::text, ';' order by (${columns})::text), ''))
       from ${table} t where workspace_id = $1`,
  ),
].join(" union all ");

/** Workspaces that are being made before anyone asks: as many as a case takes. */
const AHEAD = 5;

let opened: Promise<SharedService> | undefined;
const closers: (() => unknown)[] = [];

/** The service that all files share; opened on first use and left after the last test. */
export function openService(): Promise<SharedService> {
  opened ??= open();
  return opened;
}

async function open(): Promise<SharedService> {
  const database = await createTestDatabase();
  closers.unshift(() => database.drop());
  const receiver = await startReceiver();
  closers.unshift(() => receiver.close());
  const mcp = await startToolsServer([tool("pay"), { name: "b\u200bad", inputSchema: { type: "object" } }]);
  closers.unshift(() => mcp.close());
  // Both are on this machine; every other private address stays forbidden.
  const env = {
    ACP_LOG_LEVEL: "error",
    ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
    ACP_MCP_ALLOW: "127.0.0.0/8",
    ACP_PUBLIC_URL: "http://acp.example.com",
  };
  const server = await serveHere({ databaseUrl: database.url, env });
  closers.unshift(() => server.stop());
  const wires = openWires(server);
  closers.unshift(() => wires.close());
  const pool = new Pool({ connectionString: sessionUrlOf(database.url), max: 3 });
  pool.on("error", () => undefined);
  closers.unshift(() => pool.end());
  const ready: Promise<Workspace>[] = [];
  // Nobody asked for what is left, so a fault in making it is nobody's.
  closers.unshift(() => Promise.allSettled(ready));
  return {
    server,
    wires,
    receiver: receiver.url,
    mcp: mcp.url,
    signingKeys: await retireOldKey(server, database.url),
    workspace() {
      // Ordered ahead, so that no case waits for its workspaces.
      while (ready.length <= AHEAD) ready.push(createWorkspace(server));
      return ready.shift() as Promise<Workspace>;
    },
    async mark(workspaceId) {
      const { rows } = await pool.query<{ part: string; mark: string }>({
        // Named, so that PostgreSQL plans its many parts once per connection.
        name: "mark",
        text: MARK,
        values: [workspaceId],
      });
      return rows.map(({ part, mark }) => `${part} ${mark}`).join("\n");
    },
  };
}

/** Seals a key in `default` as a process with another signing key would have, some time before, and retires it. */
async function retireOldKey(
  { http, adminKey }: ServedHere,
  databaseUrl: string,
): Promise<SharedService["signingKeys"]> {
  const { keys } = (await (await fetch(`${http}/.well-known/jwks.json`)).json()) as { keys: { kid: string }[] };
  const old = sealedFrom(newPrivateKey());
  await using cleanup = new AsyncDisposableStack();
  const log = await openLogOf(databaseUrl, cleanup);
  await log.change("system", async ({ seal }) => seal({ type: "signing_key_added", signing_key: old }));
  const headers = { "x-api-key": adminKey, "content-type": "application/json" };
  const path = `${http}/v1/admin/signing-keys/${old.key_id}:retire`;
  const { ok } = await fetch(path, { method: "POST", headers, body: "{}" });
  if (!ok) throw new Error("the old key was not retired");
  return { active: keys[0]?.kid ?? "", old: old.key_id };
}

async function createWorkspace({ http, adminKey }: ServedHere): Promise<Workspace> {
  const id = `ws-${randomBytes(6).toString("hex")}`;
  const response = await fetch(`${http}/v1/admin/workspaces`, {
    method: "POST",
    headers: { "x-api-key": adminKey, "content-type": "application/json" },
    body: JSON.stringify({ workspace_id: id }),
  });
  const { secret } = (await response.json()) as { secret: string };
  return { id, key: secret };
}

// With several processes this ends the first file of each; the next one opens the service again.
after("leaves the conformance server", async () => {
  opened = undefined;
  for (const close of closers.splice(0)) await close();
});
