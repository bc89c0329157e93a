import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { AuthorityKind } from "../state/control-changes.ts";
import type { IdPrefix } from "../store/ids.ts";

/** What tells one kind of authority from another when it is made and spoken of. */
export interface KindTraits {
  readonly prefix: IdPrefix;
  /** What messages call it. */
  readonly noun: string;
  /** Seconds that it lasts when nothing is said; undefined for ever. */
  readonly defaultSeconds?: number;
  /** The request field of its free text. */
  readonly textField?: "purpose" | "name" | "reason" | "goal";
  /** The request field of what it admits. */
  readonly actionTypesField?: "action_types" | "allowed_action_types";
}

/** Seconds that a session lasts when nothing is said: a day. */
export const DEFAULT_SESSION_SECONDS = 86_400;

/** Every kind of authority. */
export const KINDS: Readonly<Record<AuthorityKind, KindTraits>> = {
  session: { prefix: "ses", noun: "session", textField: "purpose", defaultSeconds: DEFAULT_SESSION_SECONDS },
  credential: { prefix: "crd", noun: "credential", textField: "name" },
  grant: { prefix: "grt", noun: "grant", actionTypesField: "action_types" },
  temporal_window: {
    prefix: "tmw",
    noun: "temporal window",
    textField: "reason",
    actionTypesField: "action_types",
  },
  intent_contract: {
    prefix: "itc",
    noun: "intent contract",
    textField: "goal",
    actionTypesField: "allowed_action_types",
  },
  federation_token: { prefix: "fed", noun: "federation token", actionTypesField: "allowed_action_types" },
  mcp_tool_policy: { prefix: "mtp", noun: "MCP tool policy" },
};

/** The error for an id that the workspace has no authority of this kind of. */
export function authorityNotFound(kind: AuthorityKind, id: string): ControlPlaneError {
  const message = `no ${KINDS[kind].noun} \`${id}\``;
  return new ControlPlaneError(ErrorReason.AUTHORITY_NOT_FOUND, message, { kind, id });
}
