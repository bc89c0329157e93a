/*
 * Writes the database of the present version, with data of every kind, to `test/testdata/upgrade/<version>/`: `node
 * test/store/upgrade/make-fixture.ts`, once at each release. Needs Debian's PostgreSQL, whose `pg_dump` writes it.
 */
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { versionOf } from "../../../src/version.ts";
import { agentctl } from "../../cli/harness.ts";
import { startDebianPostgres } from "../../support/debian-postgres.ts";
import { serveHere } from "../../support/served-here.ts";
import { ANN, ANN_NAME, FIXTURES, type Kept, SECRETS } from "./fixtures.ts";

const DECISIONS = 12;
const folder = join(FIXTURES, versionOf());
await using server = await startDebianPostgres();
const url = await server.database("acp");
const service = await serveHere({ databaseUrl: url, env: SECRETS });
const kept = join(tmpdir(), `acp-fixture-${process.pid}`);

async function call(method: string, path: string, body: object): Promise<Record<string, Record<string, string>>> {
  const headers = { "x-api-key": SECRETS.ACP_ADMIN_KEY, "content-type": "application/json" };
  const response = await fetch(service.http + path, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${text}`);
  return JSON.parse(text) as Record<string, Record<string, string>>;
}

const decided: Kept["decisions"][number][] = [];
let checkpoint: string;
let annKey: string;
try {
  const { agent } = await call("POST", "/v1/enforce/agents", { name: "clerk" });
  const agentId = agent?.agent_id ?? "";
  await call("POST", "/v1/enforce/tools", {
    name: "pay",
    input_schema: { type: "object", properties: { amount: { type: "number" } } },
  });
  await call("POST", "/v1/enforce/mandates", {
    name: "payments",
    rules: [
      { type: "action", decision: "block", conditions: { match_action_types: ["delete"] } },
      { type: "action", decision: "escalate", conditions: { match_action_types: ["wire"] } },
    ],
  });
  await call("POST", "/v1/enforce/departments", { name: "accounts" });
  await call("POST", "/v1/admin/people", { name: "Ann Example", role: "operator", ...ANN });
  const keyMade = await call("POST", "/v1/admin/keys", { name: "of ann", role: "operator", owner: ANN_NAME });
  annKey = String(keyMade.secret);
  await call("PUT", "/v1/enforce/approver-groups/money", { members: [ANN_NAME] });
  await call("PATCH", "/v1/enforce/notification-settings", {
    slack_bot_token: "xoxb-of-the-fixture",
    slack_signing_secret: "a-signing-secret-of-the-fixture",
  });
  await call("POST", "/v1/enforce/sessions", { agent_id: agentId, purpose: "audit" });
  await call("POST", "/v1/enforce/webhooks", { url: "https://hooks.example.com/", events: ["agent.revoked"] }).catch(
    () => undefined,
  );
  await call("POST", "/api/redact/default/values", {
    values: [{ kind: "person_name", value: "Wilhelmina Ockerbloom" }],
  });
  for (let count = 0; count < DECISIONS; count += 1) {
    const action_type = ["read", "delete", "wire"][count % 3] ?? "read";
    const made = await call("POST", "/v1/enforce/intercept", {
      agent_id: agentId,
      action_type,
      action_content: `action ${count}`,
    });
    decided.push({ decision_id: String(made.decision_id), decision: String(made.decision) });
  }
  const other = await call("POST", "/v1/enforce/agents", { name: "leaver" });
  await call("POST", `/v1/enforce/agents/${other.agent?.agent_id}/revoke`, { reason: "left" });
  const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: SECRETS.ACP_ADMIN_KEY };
  const verified = await agentctl(["vault", "verify", "--keep-checkpoint", kept], env);
  if (verified.code !== 0) throw new Error(verified.stdout + verified.stderr);
  checkpoint = await readFile(kept, "utf8");
} finally {
  await service.stop();
  await rm(kept, { force: true });
}
await mkdir(folder, { recursive: true });
const dump = join(folder, "database.sql");
const options = ["--format=plain", "--column-inserts", "--no-owner", "--no-privileges", "--no-comments"];
await server.dump(url, dump, ...options);
// Commands of psql, which newer releases of `pg_dump` write, are no SQL.
await writeFile(dump, (await readFile(dump, "utf8")).replace(/^\\.*\n/gm, ""));
await writeFile(
  join(folder, "kept.json"),
  `${JSON.stringify({ checkpoint, decisions: decided, annKey } satisfies Kept, null, 2)}\n`,
);
const { stdout } = await promisify(execFile)("du", ["-sk", folder]);
console.log(`wrote ${stdout.trim()} kB`);
