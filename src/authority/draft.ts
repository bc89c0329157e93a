import { invalidField } from "../errors.ts";
import { isActionPattern } from "../policy/action-pattern.ts";
import type { Decision } from "../policy/types.ts";
import { checkedName, checkedPatterns, checkedText } from "../registry/checked-text.ts";
import type { AuthorityKind, SealedAuthority } from "../state/control-changes.ts";
import { KINDS } from "./kinds.ts";

/** What is asked for when authority is made. Which members apply follows from the kind; the others are left out. */
export interface AuthorityDraft {
  readonly kind: AuthorityKind;
  /** The agent that may use it: a grant's grantee. Null for an MCP tool policy that holds for every agent. */
  readonly agentId: string | null;
  /** Seconds that it lasts; undefined for the kind's default, or for as long as the parent grant. */
  readonly lastsSeconds?: number | undefined;
  /** Actions that may be allowed under it; undefined for any number. */
  readonly maxUses?: number | undefined;
  /** Session's purpose, credential's name, window's reason, contract's goal. */
  readonly text?: string | undefined;
  /** Grant, window, contract, token: action-type patterns. */
  readonly actionTypes?: readonly string[] | undefined;
  /** Grant: the agent that lends. */
  readonly grantorAgentId?: string | undefined;
  /** Grant: the grant that it passes on. */
  readonly parentGrantId?: string | undefined;
  /** Window: when it opens, epoch milliseconds; undefined means at once. */
  readonly startsAtMs?: number | undefined;
  /** Contract: the tools inside it; empty for any. */
  readonly tools?: readonly string[] | undefined;
  /** Token: the cap on the agent's trust. */
  readonly maxTrustTenths?: number | undefined;
  /** Token: who is to accept it. */
  readonly audience?: string | undefined;
  /** Policy: the MCP server; `*` for any. */
  readonly server?: string | undefined;
  /** Policy: the tool pattern. */
  readonly tool?: string | undefined;
  /** Policy: what holds. */
  readonly decision?: Decision | undefined;
}

/** Authority as it will be sealed, without what follows from the state and the time of its making. */
export type ToldAuthority = Omit<SealedAuthority, "id" | "expires_at_ms" | "starts_at_ms" | "prefix">;

/** The same members, each of which may be undefined instead of left out. */
type Members<T> = { readonly [K in keyof Required<T>]: T[K] | undefined };

/** Leaves out the members that are undefined, as the log does. */
export function withoutUndefined<T extends object>(members: Members<T>): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}

function toolPatternFrom(text: string): string {
  const pattern = checkedName("tool", text);
  if (isActionPattern(pattern)) return pattern;
  throw invalidField("tool", "may have `*` at its end only");
}

function serverFrom(text: string): string {
  const server = checkedName("server", text);
  // Elsewhere a star stands for the rest of a name; here it would silently match nothing.
  if (server === "*" || !server.includes("*")) return server;
  throw invalidField("server", "must be the name of a server, or `*` alone for any");
}

const toolsFrom = (tools: readonly string[]): string[] =>
  tools.map((tool, index) => checkedName(`allowed_tools[${index}]`, tool));

/** A text that nobody gave is left out. */
function textFrom(field: string | undefined, text: string | undefined): string | undefined {
  return field === undefined || text === undefined || text === "" ? undefined : checkedText(field, text);
}

const mapped = <T, R>(value: T | undefined, from: (value: T) => R): R | undefined =>
  value === undefined ? undefined : from(value);

/** Checks everything of a draft that can be told from it alone. Throws INVALID_FIELD. */
export function toldFrom(draft: AuthorityDraft): ToldAuthority {
  const { kind, agentId, grantorAgentId } = draft;
  const { textField, actionTypesField = "action_types" } = KINDS[kind];
  if (grantorAgentId !== undefined && grantorAgentId === agentId) {
    throw invalidField("grantee_agent_id", "must be another agent than the grantor");
  }
  return withoutUndefined<ToldAuthority>({
    kind,
    agent_id: agentId,
    max_uses: draft.maxUses ?? null,
    text: textFrom(textField, draft.text),
    action_types: mapped(draft.actionTypes, (patterns) => checkedPatterns(actionTypesField, patterns)),
    grantor_agent_id: grantorAgentId,
    parent_grant_id: draft.parentGrantId,
    tools: mapped(draft.tools, toolsFrom),
    max_trust_tenths: draft.maxTrustTenths,
    audience: mapped(draft.audience, (audience) => checkedName("audience", audience)),
    server: mapped(draft.server, serverFrom),
    tool: mapped(draft.tool, toolPatternFrom),
    decision: draft.decision,
  });
}
