import { type ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { AuthorityKind } from "../state/control-changes.ts";
import type { IdPrefix } from "../store/ids.ts";

/** Traits of one kind of authority. */
interface KindTraits {
  readonly prefix: IdPrefix;
  /** Its name in messages. */
  readonly noun: string;
  /** Default lifetime in seconds; undefined: unlimited. */
  readonly defaultSeconds?: number;
  /** The request field of its free text. */
  readonly textField?: "purpose" | "name" | "reason" | "goal";
  /** The request field of its action types. */
  readonly actionTypesField?: "action_types" | "allowed_action_types";
}

/** Default lifetime of a session: a day. */
const DEFAULT_SESSION_SECONDS = 86_400;

/** Traits of every kind. */
export const KIND_TRAITS: Readonly<Record<AuthorityKind, KindTraits>> = {
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

/** Builds the error for an unknown id of a kind. */
export function authorityNotFound(kind: AuthorityKind, id: string): ControlPlaneError {
  return notFound(ErrorReason.AUTHORITY_NOT_FOUND, KIND_TRAITS[kind].noun, { id, kind });
}
