import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { TestService } from "../support/service.ts";

/** A decided call of an episode, as it is sent. */
export interface StepResult {
  readonly step: number;
  readonly decision: string;
  readonly decision_path: string;
  readonly ran: boolean;
  readonly policy_name?: string | null;
  readonly reasons: readonly { readonly code: string; readonly argument?: string | null }[];
}

/** The answer to a replay: the results of its episodes with the summary, or an error. */
export interface ReplayAnswer {
  readonly episodes: readonly { readonly id: string; readonly steps: readonly StepResult[] }[];
  readonly summary: Readonly<Record<string, unknown>>;
  readonly error: { readonly reason: string; readonly field: string; readonly message: string } | undefined;
}

type Line = {
  readonly episode?: ReplayAnswer["episodes"][number];
  readonly summary?: ReplayAnswer["summary"];
  readonly error?: {
    readonly message: string;
    readonly details: readonly {
      readonly reason?: string;
      readonly field_violations?: readonly { readonly field: string }[];
    }[];
  };
};

/** Asks a service to replay, over REST. */
export async function replay(
  service: TestService,
  body: object | string,
  key = service.adminKey,
): Promise<ReplayAnswer> {
  const headers = { "x-api-key": key, "content-type": "application/json", accept: "application/x-ndjson" };
  const response = await fetch(`${service.http}/v1/enforce/replay`, {
    method: "POST",
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const episodes: ReplayAnswer["episodes"][number][] = [];
  let summary = {};
  for await (const text of createInterface({ input: Readable.fromWeb(response.body as never) })) {
    const line = JSON.parse(text) as Line;
    if (line.error !== undefined) return { episodes, summary, error: errorFrom(line.error) };
    if (line.episode != null) episodes.push(line.episode);
    summary = line.summary ?? summary;
  }
  return { episodes, summary, error: undefined };
}

function errorFrom({ message, details }: NonNullable<Line["error"]>): ReplayAnswer["error"] {
  const reason = details.find((detail) => detail.reason !== undefined)?.reason ?? "";
  const field = details.flatMap(({ field_violations: violations = [] }) => violations)[0]?.field ?? "";
  return { reason, field, message };
}

/** Returns the decisions on the calls of the first episode. */
export const decisionsOf = ({ episodes: [first] }: ReplayAnswer): readonly string[] =>
  first?.steps.map(({ decision }) => decision) ?? [];
