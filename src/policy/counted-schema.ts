import type { JsonObject } from "@bufbuild/protobuf";
import { ownValue } from "./json-type.ts";
import { createRefResolver, REF_KEYWORDS, visitSchemas } from "./schema-refs.ts";

/** The keyword that `countedSchema` adds; no document can hold it with a meaning of its own. */
export const STEP_KEYWORD = "x-agent-control-step";

/**
 * A copy of a schema in which every definition that a reference leads to carries `STEP_KEYWORD`. Only references can make
 * the work of a check grow beyond schema times arguments, so who counts there can stop it.
 */
export function countedSchema(schema: JsonObject): JsonObject {
  const copy = structuredClone(schema);
  const resolve = createRefResolver(copy);
  const mark = (target: unknown): void => {
    if (typeof target === "object" && target !== null) Object.assign(target, { [STEP_KEYWORD]: true });
  };
  const targets: unknown[] = [];
  visitSchemas(
    copy,
    (each) => {
      for (const keyword of REF_KEYWORDS) {
        const ref = ownValue(each, keyword);
        if (typeof ref === "string") targets.push(resolve(ref)?.schema);
      }
      if (ownValue(each, "$dynamicAnchor") !== undefined) targets.push(each);
    },
    resolve,
  );
  targets.forEach(mark);
  return copy;
}
