import { SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { compileOrdered } from "./compile-ordered.ts";
import { compileVelocity } from "./compile-velocity.ts";
import type { RuleBodyCompiler } from "./rule-draft.ts";

/** Compiles a `sequence` rule by its mode. Without one, what else is wrong is told for the mode that its fields suggest. */
export const compileSequence: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  if (conditions.mode === SequenceMode.VELOCITY) return compileVelocity(draft);
  if (conditions.mode === SequenceMode.ORDERED) return compileOrdered(draft);
  const isOrdered = conditions.steps.length > 0;
  const message = "a sequence rule needs the mode `velocity` or `ordered`";
  violations.add(`${path}.conditions.mode`, "MODE_MISSING", message, isOrdered ? "ordered" : undefined);
  return isOrdered ? compileOrdered(draft) : compileVelocity(draft);
};
