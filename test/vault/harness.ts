import { generateKeyPairSync } from "node:crypto";
import { VaultService } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { createVaultService } from "../../src/api/vault-service.ts";
import { createSigningKeys, type SigningKeys } from "../../src/authority/signing-key.ts";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { createVault } from "../../src/log/vault.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import {
  attempt,
  clientOf,
  createTestWorkspace,
  type Replica,
  type ServiceClient,
  type TestWorkspace,
} from "../support/workspace.ts";

/** The name of the service in these tests. */
export const ORIGIN = "log.example.com";

/** A workspace whose log is shown as evidence. */
export interface VaultFixture {
  readonly workspace: TestWorkspace;
  readonly keys: SigningKeys;
  readonly vault: ServiceClient<typeof VaultService>;
  /** Decides actions of one agent until the log has this many entries. Gives the ids of the decisions. */
  grow(size: number): Promise<string[]>;
}

/** VaultService over one replica. */
export function vaultOf({ database, logs }: Replica, { adminCaller }: TestWorkspace, keys: SigningKeys) {
  const vault = createVault({ pool: database.pool, logs, sign: createCheckpoints(ORIGIN, keys) });
  return clientOf(VaultService, createVaultService(vault), adminCaller);
}

/** Creates a workspace with one agent. */
export async function startVault(workspaceId?: string): Promise<VaultFixture> {
  const workspace = await createTestWorkspace(workspaceId);
  const { log, database, logs } = workspace;
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const keys = await createSigningKeys(database, privateKey, logs.clock.now());
  const registration = { name: "payer", framework: "", description: "", capabilities: [] };
  const { agentId } = await registerAgent(log, "key_test", {
    ...registration,
    allowedActionTypes: [],
    deniedActionTypes: [],
  });
  return {
    workspace,
    keys,
    vault: vaultOf(workspace, workspace, keys),
    async grow(size) {
      const { seq } = await log.caughtUp();
      const actions = Array.from({ length: size - seq }, () => attempt(log, { agentId, actionType: "read" }));
      return (await Promise.all(actions)).map(({ decisionId }) => decisionId);
    },
  };
}
