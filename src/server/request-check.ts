import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { pathToString } from "@bufbuild/protobuf/reflect";
import { createValidator, type Validator, type Violation } from "@bufbuild/protovalidate";
import { ControlPlaneError, ErrorReason, type FieldViolation } from "../errors.ts";
import { createStructCheck } from "./struct-check.ts";

/** Throws INVALID_FIELD or BODY_TOO_DEEP for a request that no service may see. */
export type RequestCheck = (request: Message) => void;

/** Creates the checks of request messages, one for each message type; all share one validator. `maxDepth` is in JSON brackets. */
export function createRequestChecks(maxDepth: number): (schema: DescMessage) => RequestCheck {
  const validator = createValidator({ regexMatch: createRegexMatch() });
  const structCheck = createStructCheck(maxDepth);
  return (schema) => {
    warm(validator, schema);
    const check = structCheck(schema);
    return (request) => {
      check?.(request);
      const result = validator.validate(schema, request);
      if (result.kind === "valid") return;
      throw result.kind === "invalid" ? violated(result.violations) : result.error;
    };
  };
}

// RE2 in JavaScript takes microseconds where `RegExp` takes nanoseconds, and guards against patterns of strangers: these
// are the fixed ones of our own protos.
function createRegexMatch(): (pattern: string, text: string) => boolean {
  const compiled = new Map<string, RegExp>();
  return (pattern, text) => {
    let regex = compiled.get(pattern);
    if (regex === undefined) {
      regex = new RegExp(pattern, "u");
      compiled.set(pattern, regex);
    }
    return regex.test(text);
  };
}

// Compiles the rules at start, so that a rule that cannot be evaluated is found there and no first caller waits for it.
function warm(validator: Validator, schema: DescMessage): void {
  const result = validator.validate(schema, create(schema));
  if (result.kind === "error") throw result.error;
}

function violated(found: readonly Violation[]): ControlPlaneError {
  const violations = found.map(violationFrom).sort((a, b) => (a.field < b.field ? -1 : Number(a.field > b.field)));
  const [first = { field: "", description: "is not valid" }] = violations;
  const more = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  const subject = first.field === "" ? "the request" : `\`${first.field}\``;
  const metadata = { field: first.field, violations: String(violations.length) };
  const text = `${subject}: ${first.description}${more}`;
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, text, metadata, { violations });
}

function violationFrom({ field, message, ruleId }: Violation): FieldViolation {
  return { field: pathToString(field), description: message, reason: ruleId.toUpperCase().replace(/[^A-Z0-9]+/g, "_") };
}
