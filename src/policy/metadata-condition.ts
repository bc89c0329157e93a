import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ArgumentStep } from "./argument-path.ts";
import { isJsonObject, ownValue } from "./json-type.ts";
import { HELD, NOT_HELD, type Outcome } from "./outcome.ts";

/** A condition without a schema. */
export interface MetadataPlan {
  readonly steps: readonly ArgumentStep[];
  readonly test: (value: JsonValue) => boolean;
  /** What a missing value, null included, means. */
  readonly whenMissing: Outcome;
}

/** Judges the arguments if they have the path's first member, else the metadata. Holds if any element makes it hold. */
export function judgeMetadata(
  plan: MetadataPlan,
  args: JsonObject | undefined,
  metadata: JsonObject | undefined,
): Outcome {
  const [first = ""] = plan.steps;
  const own = args === undefined || first === null ? undefined : ownValue(args, first);
  return walk(plan, 0, own === undefined || own === null ? metadata : args);
}

function walk(plan: MetadataPlan, depth: number, value: JsonValue | undefined): Outcome {
  if (value === undefined || value === null) return plan.whenMissing;
  const step = plan.steps[depth];
  if (step === undefined) return plan.test(value) ? HELD : NOT_HELD;
  if (step !== null) return isJsonObject(value) ? walk(plan, depth + 1, ownValue(value, step)) : plan.whenMissing;
  if (!Array.isArray(value) || value.length === 0) return plan.whenMissing;
  return value.some((element) => walk(plan, depth + 1, element) === HELD) ? HELD : NOT_HELD;
}
