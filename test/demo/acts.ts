import { existsSync } from "node:fs";
import { join } from "node:path";
import { AgentBlockedError, type ControlPlane, type InterceptResult } from "../../src/client/index.ts";
import type { FilesystemTools } from "./filesystem-tools.ts";
import { LISTINGS_A_MINUTE } from "./mandates.ts";
import type { RestCall } from "./rest.ts";
import type { Row } from "./table.ts";

/** An agent of the demo. */
export interface Player {
  readonly name: string;
  readonly agentId: string;
}

/** Everything that the acts work with. */
export interface Cast {
  readonly folder: string;
  readonly tools: FilesystemTools;
  /** With the administrator's key. */
  readonly rest: RestCall;
  /** With the agents' key. */
  readonly controlPlane: ControlPlane;
  readonly writer: Player;
  readonly reader: Player;
}

/** One call that an agent tries. */
interface Attempt {
  readonly player: Player;
  readonly actionType: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  /** The decisions that are expected, in their order. */
  readonly expected: readonly string[];
  /** Called at each decision, before it takes effect. */
  readonly onDecision?: (result: InterceptResult) => void;
}

/** What an attempt led to. */
interface Outcome {
  readonly decisions: readonly InterceptResult[];
  /** The tool's text; undefined when it did not run. */
  readonly text: string | undefined;
}

async function attempt(
  { controlPlane, tools }: Cast,
  { player, actionType, tool, args, ...rest }: Attempt,
): Promise<Outcome> {
  const decisions: InterceptResult[] = [];
  const onDecision = (result: InterceptResult): void => {
    decisions.push(result);
    rest.onDecision?.(result);
  };
  const call = controlPlane.guard((given: Record<string, unknown>) => tools.call(tool, given), {
    ...{ agentId: player.agentId, actionType, tool, onDecision, escalationTimeout: 60 },
    toArguments: (given) => given,
  });
  try {
    return { decisions, text: await call(args) };
  } catch (error) {
    if (!(error instanceof AgentBlockedError)) throw error;
    return { decisions, text: undefined };
  }
}

function rowFrom(
  { folder }: Cast,
  { player, tool, args, expected }: Attempt,
  outcome: Outcome,
  effect: string | Error,
): Row {
  const decisions = outcome.decisions.map(({ decision }) => decision).join(", then ");
  const reasons = outcome.decisions.map(({ reasons: [first], policyName }) =>
    [policyName, first?.message].filter((part) => part != null).join(": "),
  );
  return {
    agent: player.name,
    call: `${tool} ${String(args.path).replace(folder, "…")}`,
    expected: expected.join(", then "),
    decision: decisions,
    reason: reasons.at(-1) ?? "",
    effect: effect instanceof Error ? `WRONG: ${effect.message}` : effect,
    isAsExpected: decisions === expected.join(", then ") && !(effect instanceof Error),
  };
}

/** An agent reads a note; nothing forbids it. */
async function allowedRead(cast: Cast): Promise<Row> {
  const path = join(cast.folder, "note.txt");
  const read: Attempt = {
    ...{ player: cast.reader, actionType: "fs.read", tool: "read_text_file" },
    ...{ args: { path }, expected: ["allow"] },
  };
  const outcome = await attempt(cast, read);
  const effect = outcome.text?.includes("tea at five") ? "text was read" : new Error("the text did not come");
  return rowFrom(cast, read, outcome, effect);
}

/** An agent writes where nobody may; a typed rule on the path blocks it. */
async function blockedWrite(cast: Cast): Promise<Row> {
  const path = join(cast.folder, "vault", "keys.txt");
  const write: Attempt = {
    ...{ player: cast.writer, actionType: "fs.write", tool: "write_file" },
    ...{ args: { path, content: "stolen" }, expected: ["block"] },
  };
  const outcome = await attempt(cast, write);
  return rowFrom(cast, write, outcome, existsSync(path) ? new Error("the file exists") : "no file");
}

/** An agent writes settings; the file appears only after a person approved it over the API. */
async function approvedWrite(cast: Cast): Promise<Row> {
  const path = join(cast.folder, "service.conf");
  const escalated = Promise.withResolvers<string>();
  const write: Attempt = {
    ...{ player: cast.writer, actionType: "fs.write", tool: "write_file" },
    ...{ args: { path, content: "port = 7080" }, expected: ["escalate", "allow"] },
    onDecision: ({ escalationId }) => escalationId !== null && escalated.resolve(escalationId),
  };
  const running = attempt(cast, write);
  // Without an escalation the attempt ends by itself, and there is nobody to wait for.
  const escalationId = await Promise.race([escalated.promise, running.then(() => undefined)]);
  const wasThere = existsSync(path);
  if (escalationId !== undefined) {
    const resolve = `/api/control/enforcement/escalations/${escalationId}/resolve`;
    await cast.rest("POST", resolve, { resolution: "approved", note: "looks right" });
  }
  const outcome = await running;
  if (wasThere) return rowFrom(cast, write, outcome, new Error("the file was there before the approval"));
  return rowFrom(cast, write, outcome, existsSync(path) ? "file after approval" : new Error("no file"));
}

/** Two agents list a folder in turn; the limit that all agents share stops them. */
async function limitedBurst(cast: Cast): Promise<Row[]> {
  const rows: Row[] = [];
  for (let index = 0; index < LISTINGS_A_MINUTE + 2; index++) {
    const player = index % 2 === 0 ? cast.reader : cast.writer;
    const fits = index < LISTINGS_A_MINUTE;
    const list: Attempt = {
      ...{ player, actionType: "fs.list", tool: "list_directory" },
      ...{ args: { path: cast.folder }, expected: [fits ? "allow" : "block"] },
    };
    const outcome = await attempt(cast, list);
    const ran = outcome.text !== undefined;
    rows.push(rowFrom(cast, list, outcome, ran === fits ? (ran ? "listed" : "not listed") : new Error(`ran: ${ran}`)));
  }
  return rows;
}

/** Plays all acts in order. */
export async function playActs(cast: Cast): Promise<Row[]> {
  return [await allowedRead(cast), await blockedWrite(cast), await approvedWrite(cast), ...(await limitedBurst(cast))];
}
