import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ArgumentStep } from "../../notation/argument-path.ts";
import { isJsonObject, ownValue } from "../json-value.ts";
import { createRefResolver, REF_KEYWORDS, type RefResolver } from "./check.ts";

/** Maximum schemas that are looked at for one place; further ones add no defaults. */
const MAX_SCHEMAS = 1_000;
const BRANCHES = ["allOf", "anyOf", "oneOf"] as const;
const CONDITIONAL = ["then", "else"] as const;

/** Finds the defaults that a schema declares along paths. */
export class SchemaDefaults {
  readonly #root: JsonObject;
  readonly #resolve: RefResolver;

  constructor(root: JsonObject) {
    this.#root = root;
    this.#resolve = createRefResolver(root);
  }

  /** Lists the defaults of each place along a path: of the arguments as a whole, and after each step. */
  along(steps: readonly ArgumentStep[]): readonly (readonly JsonValue[])[] {
    const found: (readonly JsonValue[])[] = [[]];
    let schemas = this.#withParts([this.#root]);
    for (const step of steps) {
      schemas = this.#withParts(schemas.flatMap((schema) => schemasAt(schema, step)));
      found.push(schemas.map((schema) => ownValue(schema, "default")).filter((value) => value !== undefined));
    }
    return found;
  }

  /** Returns some schemas with everything that they refer to and join for the same value. */
  #withParts(schemas: readonly JsonObject[]): readonly JsonObject[] {
    const found = new Set(schemas);
    for (const schema of found) {
      if (found.size > MAX_SCHEMAS) break;
      for (const part of [...this.#targets(schema), ...partsOf(schema)]) if (isJsonObject(part)) found.add(part);
    }
    return [...found];
  }

  #targets(schema: JsonObject): readonly (JsonValue | undefined)[] {
    return REF_KEYWORDS.map((keyword) => {
      const ref = ownValue(schema, keyword);
      return typeof ref === "string" ? this.#resolve(ref)?.schema : undefined;
    });
  }
}

const listOf = (value: JsonValue | undefined): readonly JsonValue[] => (Array.isArray(value) ? value : []);

function partsOf(schema: JsonObject): readonly (JsonValue | undefined)[] {
  return [
    ...BRANCHES.flatMap((keyword) => listOf(ownValue(schema, keyword))),
    ...CONDITIONAL.map((keyword) => ownValue(schema, keyword)),
  ];
}

function schemasAt(schema: JsonObject, step: ArgumentStep): readonly JsonObject[] {
  if (step !== null) {
    const properties = ownValue(schema, "properties");
    return [isJsonObject(properties) ? ownValue(properties, step) : undefined].filter(isJsonObject);
  }
  const items = ownValue(schema, "items");
  const fixed = [...listOf(items), ...listOf(ownValue(schema, "prefixItems"))];
  return [...fixed, items, ownValue(schema, "additionalItems")].filter(isJsonObject);
}
