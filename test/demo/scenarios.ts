import { existsSync } from "node:fs";
import { join } from "node:path";
import { AgentBlockedError, type InterceptResult } from "../../src/client/index.ts";
import { type DemoAgent, type DemoSetup, LISTINGS_A_MINUTE } from "./setup.ts";

/** One attempt of an agent and its result. */
export interface Row {
  readonly agent: string;
  readonly call: string;
  readonly expected: string;
  readonly decision: string;
  readonly reason: string;
  /** The observed effect: did the tool run? */
  readonly effect: string;
  readonly isAsExpected: boolean;
}

/** One tool call that an agent attempts. */
interface Attempt {
  readonly agent: DemoAgent;
  readonly actionType: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
  /** The expected decisions, in order. */
  readonly expected: readonly string[];
  /** Called at each decision, before it takes effect. */
  readonly onDecision?: (result: InterceptResult) => void;
}

/** The outcome of an attempt. */
interface Outcome {
  readonly decisions: readonly InterceptResult[];
  /** The tool's text; undefined when it did not run. */
  readonly text: string | undefined;
}

async function attempt(
  { controlPlane, tools }: DemoSetup,
  { agent, actionType, tool, args, ...rest }: Attempt,
): Promise<Outcome> {
  const decisions: InterceptResult[] = [];
  const onDecision = (result: InterceptResult): void => {
    decisions.push(result);
    rest.onDecision?.(result);
  };
  const call = controlPlane.guard((given: Record<string, unknown>) => tools.call(tool, given), {
    ...{ agentId: agent.agentId, actionType, tool, onDecision, escalationTimeout: 60 },
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
  { folder }: DemoSetup,
  { agent, tool, args, expected }: Attempt,
  outcome: Outcome,
  effect: string | Error,
): Row {
  const decisions = outcome.decisions.map(({ decision }) => decision).join(", then ");
  const reasons = outcome.decisions.map(({ reasons: [first], policyName }) =>
    [policyName, first?.message].filter((part) => part != null).join(": "),
  );
  return {
    agent: agent.name,
    call: `${tool} ${String(args.path).replace(folder, "…")}`,
    expected: expected.join(", then "),
    decision: decisions,
    reason: reasons.at(-1) ?? "",
    effect: effect instanceof Error ? `WRONG: ${effect.message}` : effect,
    isAsExpected: decisions === expected.join(", then ") && !(effect instanceof Error),
  };
}

/** An agent reads a note, which no rule forbids. */
async function allowedRead(setup: DemoSetup): Promise<Row> {
  const path = join(setup.folder, "note.txt");
  const read: Attempt = {
    ...{ agent: setup.reader, actionType: "fs.read", tool: "read_text_file" },
    ...{ args: { path }, expected: ["allow"] },
  };
  const outcome = await attempt(setup, read);
  const effect = outcome.text?.includes("tea at five") ? "text was read" : new Error("the text did not come");
  return rowFrom(setup, read, outcome, effect);
}

/** An agent writes to a read-only folder; a typed rule on the path blocks it. */
async function blockedWrite(setup: DemoSetup): Promise<Row> {
  const path = join(setup.folder, "vault", "keys.txt");
  const write: Attempt = {
    ...{ agent: setup.writer, actionType: "fs.write", tool: "write_file" },
    ...{ args: { path, content: "stolen" }, expected: ["block"] },
  };
  const outcome = await attempt(setup, write);
  return rowFrom(setup, write, outcome, existsSync(path) ? new Error("the file exists") : "no file");
}

/** An agent writes settings; the file appears only after a person approved it over the API. */
async function approvedWrite(setup: DemoSetup): Promise<Row> {
  const path = join(setup.folder, "service.conf");
  const escalated = Promise.withResolvers<string>();
  const write: Attempt = {
    ...{ agent: setup.writer, actionType: "fs.write", tool: "write_file" },
    ...{ args: { path, content: "port = 7080" }, expected: ["escalate", "allow"] },
    onDecision: ({ escalationId }) => escalationId !== null && escalated.resolve(escalationId),
  };
  const running = attempt(setup, write);
  // If the action is not escalated, the attempt ends by itself.
  const escalationId = await Promise.race([escalated.promise, running.then(() => undefined)]);
  const wasThere = existsSync(path);
  if (escalationId !== undefined) {
    const resolve = `/api/control/enforcement/escalations/${escalationId}/resolve`;
    await setup.rest("POST", resolve, { resolution: "approved", note: "looks right" });
  }
  const outcome = await running;
  if (wasThere) return rowFrom(setup, write, outcome, new Error("the file was there before the approval"));
  return rowFrom(setup, write, outcome, existsSync(path) ? "file after approval" : new Error("no file"));
}

/** Two agents list a folder in turn until the limit that they share stops them. */
async function limitedBurst(setup: DemoSetup): Promise<Row[]> {
  const rows: Row[] = [];
  for (let index = 0; index < LISTINGS_A_MINUTE + 2; index++) {
    const agent = index % 2 === 0 ? setup.reader : setup.writer;
    const fits = index < LISTINGS_A_MINUTE;
    const list: Attempt = {
      ...{ agent, actionType: "fs.list", tool: "list_directory" },
      ...{ args: { path: setup.folder }, expected: [fits ? "allow" : "block"] },
    };
    const outcome = await attempt(setup, list);
    const ran = outcome.text !== undefined;
    rows.push(rowFrom(setup, list, outcome, ran === fits ? (ran ? "listed" : "not listed") : new Error(`ran: ${ran}`)));
  }
  return rows;
}

/** Runs all scenarios in order. */
export async function runScenarios(setup: DemoSetup): Promise<Row[]> {
  return [
    await allowedRead(setup),
    await blockedWrite(setup),
    await approvedWrite(setup),
    ...(await limitedBurst(setup)),
  ];
}
