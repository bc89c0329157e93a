import type { JsonValue } from "@bufbuild/protobuf";
import { doInTurns, type Work } from "../async/work.ts";
import { invalidField } from "../errors.ts";
import { type ArgumentStep, argumentSteps } from "../notation/argument-path.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { argumentsFrom } from "../policy/names.ts";
import type { FlattenedArgument, ToolSchema } from "../policy/types.ts";
import { jsonBytes } from "../registry/page.ts";
import type { Action, Outcome } from "../state/types.ts";
import { decideInTurn } from "./decide-in-turn.ts";
import type { DryRuns, Question } from "./dry-runs.ts";
import { withSeen } from "./supposed-knowledge.ts";

/** An argument that a tool's schema declares, and whether a step gives it. */
export interface GivenArgument extends FlattenedArgument {
  readonly given: boolean;
}

/** Outcome of one step of a plan. */
export interface PreflightStep {
  readonly outcome: Outcome;
  /** Every argument of the step's tool. */
  readonly arguments: readonly GivenArgument[];
}

/** Outcome of a plan. */
export interface Preflight {
  readonly steps: readonly PreflightStep[];
  /** Size of the log on which it was decided. */
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly atMs: number;
}

/** Decides the steps of a plan in their order. Rejects as `DryRuns.run` does. */
export async function preflight(dryRuns: DryRuns, question: Question): Promise<Preflight> {
  const { outcomes, seq, atMs } = await dryRuns.run(
    question,
    function* (state, given, nowMs) {
      const actions = yield* withSeen(state, given, question.seen ?? []);
      return { outcomes: yield* decideInTurn(state, actions, nowMs), seq: state.seq, atMs: nowMs };
    },
    ({ outcomes }) => outcomes,
  );
  assertShort(outcomes);
  return { steps: await doInTurns(withArguments(question.actions, outcomes)), seq, atMs };
}

/** Maximum bytes of the arguments of all steps' tools in the answer: gRPC clients take 4 MiB by default. */
const MAX_ARGUMENT_BYTES = 3_145_728;

function assertShort(outcomes: readonly Outcome[]): void {
  const sizes = new Map<ToolSchema, number>();
  let bytes = 0;
  for (const { tool } of outcomes) {
    if (tool === undefined) continue;
    const size = sizes.get(tool) ?? jsonBytes(tool.arguments);
    sizes.set(tool, size);
    bytes += size;
  }
  if (bytes <= MAX_ARGUMENT_BYTES) return;
  throw invalidField(
    "steps",
    "name tools whose arguments take more than 3 MiB in the answer; send fewer steps at once",
  );
}

function* withArguments(actions: readonly Action[], outcomes: readonly Outcome[]): Work<readonly PreflightStep[]> {
  const steps: PreflightStep[] = [];
  for (const [index, outcome] of outcomes.entries()) {
    const args = argumentsFrom(actions[index]?.metadata);
    const given: GivenArgument[] = [];
    for (const argument of outcome.tool?.arguments ?? []) {
      given.push({ ...argument, given: isGiven(args, argumentSteps(argument.path) ?? []) });
      yield;
    }
    steps.push({ outcome, arguments: given });
  }
  return steps;
}

function isGiven(value: JsonValue | undefined, [step, ...rest]: readonly ArgumentStep[]): boolean {
  if (step === undefined) return value !== undefined;
  if (step === null) return Array.isArray(value) && value.some((element) => isGiven(element, rest));
  return isJsonObject(value) && isGiven(ownValue(value, step), rest);
}
