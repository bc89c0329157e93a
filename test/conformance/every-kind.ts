import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Step } from "./cases.ts";
import { filledForKind } from "./template.ts";

/** What tells one kind of authority from another, as `authority-kinds.json` has it. */
export interface AuthorityKindRow extends JsonObject {
  /** `intent_contract`: the wrapper of one, the beginning of its id field, and the step that makes one. */
  readonly one: string;
  /** What it looks like when just made. */
  readonly made: JsonObject;
  /** What stands beside it in the answer of its making. */
  readonly shown_once: JsonObject;
}

/** A case that may hold for every kind; then `[[name]]` in it stands for what differs. */
export interface ForEveryKind {
  readonly for_every_kind?: true;
}

function rowFrom(kind: AuthorityKindRow, steps: Readonly<Record<string, Step>>): JsonObject {
  const { one, made, shown_once } = kind;
  const { request = {} } = steps[one] ?? missing(one);
  return { ...kind, request, answer: { [one]: made, ...shown_once } };
}

/** Writes out the cases that hold for every kind. Throws for a kind that no step makes. */
export function forEveryKind<T extends ForEveryKind>(
  cases: readonly T[],
  kinds: readonly AuthorityKindRow[],
  steps: Readonly<Record<string, Step>>,
): T[] {
  const rows = kinds.map((kind) => rowFrom(kind, steps));
  return cases.flatMap((each) => {
    if (each.for_every_kind === undefined) return [each];
    return rows.map((row) => filledForKind(each as JsonValue, row) as T);
  });
}

function missing(one: string): never {
  throw new Error(`steps.json has no step \`${one}\``);
}
