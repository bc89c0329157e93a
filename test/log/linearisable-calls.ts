import type { DescMethodUnary, JsonObject } from "@bufbuild/protobuf";
import type { PlainJson } from "../support/plain-json.ts";
import type { WireName } from "../support/wire-answer.ts";
import type { Member } from "./linearisable-fleet.ts";

/** Kind of a call; its name in reports. */
export type CallKind =
  | "intercept"
  | "register"
  | "found"
  | "join"
  | "leave"
  | "publish"
  | "archive"
  | "deactivate"
  | "revoke"
  | "resolve"
  | "edit"
  | "extend"
  | "lend"
  | "end_grant"
  | "configure"
  | "introduce"
  | "claim"
  | "report"
  | "get_agent"
  | "list_decisions"
  | "get_status"
  | "get_outcome";

/** End of a call: a body, a refusal by the service, or no answer. */
export type CallOutcome =
  | { readonly kind: "answered"; readonly body: JsonObject }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "unanswered" };

/** One call as its caller saw it. */
export interface Call {
  readonly kind: CallKind;
  readonly request: JsonObject;
  /** Identifies the entry that the call appends, answered or not; undefined for a call that appends none. */
  readonly mark: string | undefined;
  readonly wire: WireName;
  /** Index of the process. */
  readonly process: number;
  /** Milliseconds of a clock that all callers share. */
  readonly startedAt: number;
  /** The same; infinite when no answer came. */
  readonly endedAt: number;
  readonly outcome: CallOutcome;
  /** True if the process was killed during the call. */
  readonly wasKilled: boolean;
}

/** A call in words. */
export const told = ({ kind, process, wire, request, outcome }: Call): string =>
  `${kind} on process ${process} over ${wire} ${JSON.stringify(request)} gave ${JSON.stringify(outcome)}`;

/** A call to make. */
export interface CallTarget {
  readonly kind: CallKind;
  readonly method: DescMethodUnary;
  readonly request: JsonObject;
  readonly mark?: string;
}

/** Destination of a call. */
export interface CallRoute {
  readonly member: Member;
  readonly process: number;
  /** Index of the wire. */
  readonly wire: number;
}

/** Calls a process and records the call at the end of a list. Never rejects. */
export async function recordCall(
  calls: Call[],
  target: CallTarget,
  { member, process, wire }: CallRoute,
): Promise<Call> {
  const { kind, method, request, mark } = target;
  const { all } = member.wires;
  const client = all[wire % all.length] as (typeof all)[number];
  const { life } = member;
  const startedAt = performance.now();
  const outcome = await outcomeOf(client.unary(method, request, { key: member.server.adminKey }));
  const endedAt = outcome.kind === "unanswered" ? Number.POSITIVE_INFINITY : performance.now();
  const wasKilled = member.life !== life;
  const call = { kind, request, mark, wire: client.name, process, startedAt, endedAt, outcome, wasKilled };
  calls.push(call);
  return call;
}

type Answered = Promise<{ readonly body: PlainJson | undefined; readonly reason: string | undefined }>;

async function outcomeOf(answer: Answered): Promise<CallOutcome> {
  try {
    const { body, reason } = await answer;
    if (reason !== undefined) return { kind: "refused", reason };
    return body === undefined ? { kind: "unanswered" } : { kind: "answered", body: body as JsonObject };
  } catch {
    return { kind: "unanswered" };
  }
}
