import { createInterface } from "node:readline/promises";
import type { RestCall, Stage } from "./stage.ts";

/** An escalation that waits for a person. */
export interface Ask {
  readonly escalationId: string;
  readonly tool: string;
  readonly reason: string;
}

/** How an escalation was answered, and where. */
export interface Answer {
  readonly status: "approved" | "rejected";
  readonly where: "in the terminal" | "on the page" | "by --auto";
}

/** The person who approves: in the terminal, or on the dashboard's page, whichever comes first. */
export interface Person {
  readonly isAutomatic: boolean;
  /** Gives a person the time to read. */
  pause(): Promise<void>;
  /** Resolves once the escalation is resolved. */
  answer(ask: Ask): Promise<Answer>;
}

const PAUSE_MS = 1_200;

/** Creates the person. `isAutomatic`: approves without asking. */
export function createPerson({ http, adminKey, rest }: Stage, isAutomatic: boolean): Person {
  return {
    isAutomatic,
    pause: () => new Promise((resolve) => setTimeout(resolve, isAutomatic ? 0 : PAUSE_MS)),
    async answer({ escalationId }) {
      if (isAutomatic) {
        await resolveEscalation(rest, escalationId, true);
        return { status: "approved", where: "by --auto" };
      }
      const ending = new AbortController();
      const onPage = statusWhenResolved({ http, adminKey }, escalationId, ending.signal);
      const inTerminal = askInTerminal(ending.signal);
      try {
        const first = await Promise.race([onPage, inTerminal]);
        if (typeof first === "string") return { status: first, where: "on the page" };
        await resolveEscalation(rest, escalationId, first);
        return { status: first ? "approved" : "rejected", where: "in the terminal" };
      } finally {
        ending.abort();
        await Promise.allSettled([onPage, inTerminal]);
      }
    },
  };
}

async function resolveEscalation(rest: RestCall, escalationId: string, isApproved: boolean): Promise<void> {
  await rest("POST", `/api/control/enforcement/escalations/${escalationId}/resolve`, {
    resolution: isApproved ? "approved" : "rejected",
    note: isApproved ? "looks right" : "not without a ticket",
  });
}

async function askInTerminal(signal: AbortSignal): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const answer = await terminal.question("   approve? [y/N] ", { signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

/** Follows the stream of one escalation, a line of JSON a message, until it is resolved. */
async function statusWhenResolved(
  service: Pick<Stage, "http" | "adminKey">,
  escalationId: string,
  signal: AbortSignal,
): Promise<"approved" | "rejected"> {
  for await (const { escalation } of messagesOf(service, `/v1/enforce/escalations/${escalationId}/wait`, signal)) {
    if (escalation?.status === "approved" || escalation?.status === "rejected") return escalation.status;
  }
  throw new Error("the stream of the escalation ended before it was resolved");
}

/** Resolves with the next escalation that is pending. */
export async function nextAsk(service: Pick<Stage, "http" | "adminKey">): Promise<Ask> {
  for await (const { escalation } of messagesOf(
    service,
    "/v1/enforce/escalations:watch",
    new AbortController().signal,
  )) {
    if (escalation?.status !== "pending") continue;
    const [reason] = escalation.reasons ?? [];
    return { escalationId: escalation.escalation_id, tool: escalation.tool ?? "", reason: reason?.message ?? "" };
  }
  throw new Error("the stream of escalations ended");
}

interface StreamedEscalation {
  readonly escalation_id: string;
  readonly status: string;
  readonly tool?: string | null;
  readonly reasons?: readonly { readonly message: string }[];
}

async function* messagesOf(
  { http, adminKey }: Pick<Stage, "http" | "adminKey">,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<{ readonly escalation?: StreamedEscalation | null }> {
  const response = await fetch(`${http}${path}`, { headers: { "x-api-key": adminKey }, signal });
  if (!response.ok || response.body === null) throw new Error(`${path} answered ${response.status}`);
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line);
  }
}
