import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { IncidentService } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import { createIncidentService } from "../../src/api/incident-service.ts";
import { createRevocationService } from "../../src/api/revocation-service.ts";
import { createSigningKeys, type SigningKeys } from "../../src/authority/signing-key.ts";
import type { WorkspaceLog } from "../../src/log/workspace-log.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import { withClient } from "../support/database.ts";
import {
  clientOf,
  createTestWorkspace,
  type Replica,
  type ServiceClient,
  type TestWorkspace,
} from "../support/workspace.ts";

/** The services of revocation over one replica. */
export interface RevocationServices {
  readonly keys: SigningKeys;
  readonly revocations: ServiceClient<typeof RevocationService>;
  readonly incidents: ServiceClient<typeof IncidentService>;
}

/** A workspace that can revoke. */
export interface RevocationFixture extends RevocationServices {
  readonly workspace: TestWorkspace;
}

/** Makes a key that the service can sign with. */
export function newPrivateKey(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
}

/** The services of revocation as they are after a start with a signing key. */
export async function startServices(
  { adminCaller }: TestWorkspace,
  { database, logs, authenticator }: Replica,
  privateKey: KeyObject,
): Promise<RevocationServices> {
  const keys = await createSigningKeys(database, privateKey, logs.clock.now());
  const revocation = createRevocationService({ logs, database, keys, authenticator });
  return {
    keys,
    revocations: clientOf(RevocationService, revocation, adminCaller),
    incidents: clientOf(IncidentService, createIncidentService(database), adminCaller),
  };
}

/** Creates a workspace on a database of its own, with a new signing key. */
export async function startRevocation(): Promise<RevocationFixture> {
  const workspace = await createTestWorkspace();
  return { workspace, ...(await startServices(workspace, workspace, newPrivateKey())) };
}

/** Registers agents without restrictions; gives their ids. */
export async function newAgents(log: WorkspaceLog, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++)
    ids.push((await registerAgent(log, "key_test", registration(index))).agentId);
  return ids;
}

const registration = (index: number) => ({
  name: `agent ${index}`,
  framework: "",
  description: "",
  capabilities: [],
  allowedActionTypes: [],
  deniedActionTypes: [],
});

/** Every row of every table as JSON, by table, in a fixed order. */
export function tablesOf(url: string): Promise<Map<string, string[]>> {
  return withClient(url, async (client) => {
    const { rows: tables } = await client.query<{ name: string }>(
      `select table_schema || '.' || table_name as name from information_schema.tables
        where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema') order by 1`,
    );
    const all = new Map<string, string[]>();
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select to_jsonb(t)::text as row from ${name} t order by 1`);
      all.set(
        name.slice(name.indexOf(".") + 1),
        rows.map(({ row }) => row),
      );
    }
    return all;
  });
}

/** The rows that are in one reading of the tables and not in another, by table; tables without any are left out. */
export function rowsOnlyIn(
  one: ReadonlyMap<string, readonly string[]>,
  other: ReadonlyMap<string, readonly string[]>,
): Record<string, Record<string, unknown>[]> {
  const only: Record<string, Record<string, unknown>[]> = {};
  for (const [table, rows] of one) {
    const known = new Set(other.get(table));
    const left = rows.filter((row) => !known.has(row));
    if (left.length > 0) only[table] = left.map((row) => JSON.parse(row) as Record<string, unknown>);
  }
  return only;
}
