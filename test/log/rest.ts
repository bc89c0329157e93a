import { startServer, type TestServer } from "../support/server.ts";

/** A reply of REST intercept, as far as tests look into it. */
export interface RestDecision {
  readonly decision: "allow" | "block" | "escalate";
  readonly decision_id: string;
  readonly trust_score: number;
  readonly latency_ms: number;
  readonly escalation_id: string | null;
  readonly replayed: boolean;
  readonly decided_at: string | null;
  /** Null for an action that is not allowed, or was asked for without a `claim_id`. */
  readonly claimed: boolean | null;
  readonly report_outcome: boolean;
}

/** What a reply says of the decision, without how and when the reply came. */
export function saidOf({ latency_ms: _, replayed: __, decided_at: ___, ...said }: RestDecision): object {
  return said;
}

/** Result of a call: a decision, a refusal with its reason, or no answer. */
export type RestOutcome =
  | { readonly kind: "decided"; readonly reply: RestDecision }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "unanswered" };

interface RestError {
  readonly error: { readonly status: string; readonly details: readonly { readonly reason?: string }[] };
}

/** Starts processes on one database at once; all know the key that opens the first. */
export function startServers(databaseUrl: string, count: number, adminKey: string): Promise<TestServer[]> {
  const env = { ACP_ADMIN_KEY: adminKey };
  return Promise.all(Array.from({ length: count }, () => startServer({ databaseUrl, env })));
}

/** Posts JSON to a server as its administrator, or sends it with another method. Throws for an error. */
export async function post<T>(
  { http, adminKey }: Pick<TestServer, "http" | "adminKey">,
  path: string,
  body: object,
  method: "POST" | "PUT" = "POST",
): Promise<T> {
  const response = await fetch(http + path, {
    method,
    headers: { "content-type": "application/json", "x-api-key": adminKey },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return (await response.json()) as T;
}

/** Asks a process for a decision over REST. Never rejects: a process that goes away leaves the call unanswered. */
export async function interceptOver({ http, adminKey }: TestServer, action: object): Promise<RestOutcome> {
  try {
    const response = await fetch(`${http}/v1/enforce/intercept`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": adminKey },
      body: JSON.stringify({ action_content: "", ...action }),
    });
    const body = (await response.json()) as RestDecision | RestError;
    if (!("error" in body)) return { kind: "decided", reply: body };
    return { kind: "refused", reason: body.error.details[0]?.reason ?? body.error.status };
  } catch {
    return { kind: "unanswered" };
  }
}

/** The decision of an outcome. Throws when there is none. */
export function decided(outcome: RestOutcome): RestDecision {
  if (outcome.kind !== "decided") throw new Error(`no decision but ${JSON.stringify(outcome)}`);
  return outcome.reply;
}
