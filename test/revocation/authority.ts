import type { WorkspaceLog } from "../../src/log/writer.ts";
import type { SealedAuthority } from "../../src/state/control-changes.ts";
import { AuthorityEntity } from "../../src/store/entities.ts";
import { createId, type IdPrefix } from "../../src/store/ids.ts";

const PREFIXES: Readonly<Record<SealedAuthority["kind"], IdPrefix>> = {
  session: "ses",
  credential: "crd",
  grant: "grt",
  temporal_window: "tmw",
  intent_contract: "itc",
  federation_token: "fed",
  mcp_tool_policy: "mtp",
};

/** A piece of authority of an agent that neither expires nor is used up, unless told otherwise. */
export function newAuthority(
  kind: SealedAuthority["kind"],
  agentId: string | null,
  more: Partial<SealedAuthority> = {},
): SealedAuthority {
  return { id: createId(PREFIXES[kind]), kind, agent_id: agentId, expires_at_ms: null, max_uses: null, ...more };
}

/** A grant of every action type from one agent to another. */
export function newGrant(from: string, to: string, parent?: SealedAuthority): SealedAuthority {
  const hangs = parent === undefined ? {} : { parent_grant_id: parent.id };
  return newAuthority("grant", to, { grantor_agent_id: from, action_types: ["*"], ...hangs });
}

/** One piece of authority of each kind for an agent, the grant lent by another agent. */
export function oneOfEach(agentId: string, grantorId: string): SealedAuthority[] {
  const action_types = ["read"];
  return [
    newAuthority("session", agentId, { text: "a run" }),
    newAuthority("credential", agentId, { text: "its key", prefix: "acpc_1234" }),
    newGrant(grantorId, agentId),
    newAuthority("temporal_window", agentId, { action_types, starts_at_ms: 0 }),
    newAuthority("intent_contract", agentId, { action_types, tools: [], text: "a goal" }),
    newAuthority("federation_token", agentId, { action_types, audience: "elsewhere" }),
    newAuthority("mcp_tool_policy", agentId, { server: "*", tool: "rm*", decision: "block" }),
  ];
}

/** Authority that one transaction adds: PostgreSQL ends one that waits for seconds while the ORM writes its statement. */
const MAX_GIVEN = 1_000;

/** Makes authority durable, as its service does it. */
export async function give(log: WorkspaceLog, all: readonly SealedAuthority[]): Promise<void> {
  for (let from = 0; from < all.length; from += MAX_GIVEN) await giveAtOnce(log, all.slice(from, from + MAX_GIVEN));
}

function giveAtOnce(log: WorkspaceLog, all: readonly SealedAuthority[]): Promise<void> {
  return log.change("key_test", async ({ transaction, state, nowMs, nextSeq, seal }) => {
    const rows = all.map((sealed) => {
      const createdSeq = nextSeq();
      seal({ type: "authority_created", authority: sealed });
      return {
        workspaceId: state.workspaceId,
        id: sealed.id,
        kind: sealed.kind,
        agentId: sealed.agent_id,
        grantorAgentId: sealed.grantor_agent_id ?? null,
        sealed,
        createdSeq,
        createdAtMs: nowMs,
        endedAtMs: null,
        uses: 0,
        secretHash: null,
      };
    });
    await transaction.insertMany(AuthorityEntity, rows);
  });
}

/** Ends one session, as its service does it. */
export function killSession(log: WorkspaceLog, agentId: string, sessionId: string): Promise<void> {
  return log.change("key_test", async ({ transaction, state, nowMs, seal }) => {
    const where = { workspaceId: state.workspaceId, id: sessionId };
    await transaction.nativeUpdate(AuthorityEntity, where, { endedAtMs: nowMs });
    seal({ type: "authority_ended", kind: "session", agent_id: agentId, ids: [sessionId] });
  });
}

/** The ids of some authority, in order. */
export const idsOf = (all: readonly SealedAuthority[]): string[] => all.map(({ id }) => id).sort();
