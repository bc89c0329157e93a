import { matchesPattern, normaliseActionType } from "../policy/action-pattern.ts";
import type { AgentStatus } from "../state/agents.ts";
import type { AuthorityStatus } from "../state/authority-status.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { AuthorityEntity, type AuthorityRow } from "../store/entities.ts";
import { stored } from "../store/store-fault.ts";
import { checkToken, type TokenClaims, type TokenVerifierKeys } from "./federation-token.ts";
import type { AuthoritySource } from "./find.ts";
import { type AuthorityView, viewFrom } from "./view.ts";

/** A token to verify, and what it must be good for. */
export interface TokenQuestion {
  readonly token: string;
  /** Undefined skips the check. */
  readonly audience: string | undefined;
  /** Undefined skips the check. */
  readonly actionType: string | undefined;
}

/** Why a token would not open Intercept now. */
export type TokenFault =
  | "SIGNATURE"
  | "MALFORMED"
  | "UNKNOWN"
  | "EXPIRED"
  | "ENDED"
  | "USED_UP"
  | "AUDIENCE"
  | "ACTION_TYPE"
  | "AGENT_INACTIVE";

/** What verifying a token came to. */
export interface TokenVerdict {
  /** Undefined when the token holds. */
  readonly fault: TokenFault | undefined;
  /** Its record; undefined when the service did not sign it or the workspace has none. */
  readonly view: AuthorityView | undefined;
}

/** What the verifier of tokens works with. */
export interface TokenSource extends AuthoritySource {
  readonly keys: TokenVerifierKeys;
}

const FAULT_BY_STATUS: Readonly<Record<AuthorityStatus, TokenFault | undefined>> = {
  active: undefined,
  ended: "ENDED",
  expired: "EXPIRED",
  used_up: "USED_UP",
};

function faultOf(
  { sealed, status }: AuthorityView,
  { audience, actionType }: TokenQuestion,
  agentStatus: AgentStatus | undefined,
): TokenFault | undefined {
  if (status !== "active") return FAULT_BY_STATUS[status];
  if (audience !== undefined && audience.trim() !== sealed.audience) return "AUDIENCE";
  const isGoodFor = (type: string): boolean =>
    (sealed.action_types ?? []).some((pattern) => matchesPattern(pattern, normaliseActionType(type)));
  if (actionType !== undefined && !isGoodFor(actionType)) return "ACTION_TYPE";
  return agentStatus === "active" ? undefined : "AGENT_INACTIVE";
}

async function recordOf(
  { database }: AuthoritySource,
  workspaceId: string,
  claims: TokenClaims,
): Promise<AuthorityRow | null> {
  if (claims.workspaceId !== workspaceId) return null;
  const where = { workspaceId, id: claims.id, kind: "federation_token", agentId: claims.agentId };
  return stored(database.orm.em.fork().findOne(AuthorityEntity, where));
}

/** Verifies a token against the end of the workspace's log. What is wrong with the token is told and never thrown. */
export async function verifyFederationToken(
  source: TokenSource,
  workspaceId: string,
  question: TokenQuestion,
): Promise<TokenVerdict> {
  const { logs, keys } = source;
  const check = await checkToken(keys, question.token);
  if (check.kind === "refused") return { fault: check.reason, view: undefined };
  const row = await recordOf(source, workspaceId, check.claims);
  if (row === null) return { fault: "UNKNOWN", view: undefined };
  const state: WorkspaceState = await (await logs.of(workspaceId)).caughtUp();
  const view = viewFrom(row, state, Math.max(logs.clock.now(), state.lastAtMs));
  const agentStatus = state.agents.get(check.claims.agentId)?.status;
  return { fault: faultOf(view, question, agentStatus), view };
}
