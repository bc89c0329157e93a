import { type DescField, getOption } from "@bufbuild/protobuf";
import { FieldBehavior, field_behavior } from "../../../gen/google/api/field_behavior_pb.js";
import type { Route } from "./routes.ts";

/** Tests for a field that the service sets, `OUTPUT_ONLY` in AIP-203. */
export function isOutputOnly(field: DescField): boolean {
  return getOption(field, field_behavior).includes(FieldBehavior.OUTPUT_ONLY);
}

/**
 * Returns the output-only fields of the resource that a PUT or PATCH changes. Its body may hold them, as AIP-203 has it, so that
 * a client can send back what it read; they are ignored.
 */
export function outputOnlyFields({ httpMethod, method }: Pick<Route, "httpMethod" | "method">): DescField[] {
  if (httpMethod !== "PUT" && httpMethod !== "PATCH") return [];
  const taken = new Set(method.input.fields.map(({ name }) => name));
  const resources = method.output.fields.flatMap((field) => (field.fieldKind === "message" ? [field.message] : []));
  return resources.flatMap(({ fields }) => fields).filter((field) => isOutputOnly(field) && !taken.has(field.name));
}
