import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Answer, CallOptions, Wire } from "../support/wires.ts";
import { namedSteps, type Step } from "./cases.ts";
import { methodOf, streamMethodOf, unaryMethodOf } from "./methods.ts";
import { createNormalise, type Normalise } from "./normalise.ts";
import type { SharedService, Workspace } from "./service.ts";
import { filledIn } from "./template.ts";

const STEPS = namedSteps();

/** One case on one wire: its workspaces and what its steps answered. */
export interface CaseRun {
  readonly normalise: Normalise;
  /** Makes the steps one after the other; throws when one fails. */
  prepare(given: readonly (string | Step)[]): Promise<void>;
  call(step: Step, more?: Partial<CallOptions>): Promise<Answer>;
  /** The key that a step calls with. */
  keyOf(step: Pick<Step, "key" | "in">): Promise<string | null>;
  fill<T extends JsonValue>(value: T): T;
  /** What every workspace of the case has written; also what `default` has. */
  mark(): Promise<string>;
}

/** Creates a case with a new workspace. */
export async function createCaseRun(service: SharedService, wire: Wire): Promise<CaseRun> {
  const workspaces = new Map<string, Workspace>([["default", { id: "default", key: service.server.adminKey }]]);
  const known = new Map<string, JsonValue>();
  const normalise = createNormalise();

  const workspaceOf = async (name: string): Promise<Workspace> => {
    const found = workspaces.get(name) ?? (await service.workspace());
    workspaces.set(name, found);
    return found;
  };
  const own = await workspaceOf("own");
  known.set("workspace", own.id);
  // Named first, so that the case's own workspace is `ws#1` in every answer.
  normalise(own.id);
  known.set("key", own.key);
  known.set("receiver", service.receiver);
  known.set("mcp", service.mcp);
  known.set("default_key", service.server.adminKey);
  known.set("signing_key", service.signingKeys.active);
  known.set("old_signing_key", service.signingKeys.old);

  const fill: CaseRun["fill"] = (value) => filledIn(value, known);
  const keyOf: CaseRun["keyOf"] = async ({ key, in: name = "own" }) =>
    key === undefined ? (await workspaceOf(name)).key : key === null ? null : fill(key);

  const caseRun: CaseRun = {
    normalise,
    fill,
    keyOf,
    async prepare(given) {
      for (const each of given) await prepareStep(each);
    },
    async call(step, more = {}) {
      const options = { key: await keyOf(step), ...more };
      return wire.unary(unaryMethodOf(step.call), fill(step.request ?? {}), options);
    },
    async mark() {
      const marks = [...workspaces].map(async ([name, { id }]) => {
        // Other scenes write to `default` at the same time.
        return name === "default" ? "" : service.mark(id);
      });
      return (await Promise.all(marks)).join("\n");
    },
  };

  async function prepareStep(each: string | Step): Promise<void> {
    const step = typeof each === "string" ? { as: each, ...(STEPS[each] ?? missing(each)) } : each;
    if (methodOf(step.call).methodKind === "server_streaming") return hearStep(step);
    const { code, message, body } = await caseRun.call(step);
    if (code !== "OK") throw new Error(`\`${step.as ?? step.call}\` failed with ${code}: ${message}`);
    normalise(body as JsonValue);
    if (step.as !== undefined) known.set(step.as, body as JsonObject);
  }
  /** Reads a stream to its end; the last message is the answer. */
  async function hearStep(step: Step): Promise<void> {
    const options = { key: await keyOf(step), signal: new AbortController().signal };
    let last: JsonValue = {};
    for await (const message of wire.stream(streamMethodOf(step.call), fill(step.request ?? {}), options))
      last = message;
    normalise(last);
    if (step.as !== undefined) known.set(step.as, last);
  }
  return caseRun;
}

function missing(name: string): never {
  throw new Error(`steps.json has no step \`${name}\``);
}
