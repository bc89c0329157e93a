import { MandateDefinitionSchema } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type JsonSchema, SchemaCollector, schemaName } from "./openapi-schema.ts";

/** Member in which a file names its schema for editors. */
const SCHEMA_MEMBER = { $schema: { type: "string" } };

/**
 * Returns the JSON Schema (2020-12) of a file of mandates for editors: one mandate, a list of mandates, or an object with a list
 * `mandates`. The compiler checks more than a schema can express.
 */
export function mandateFileSchema(): JsonSchema {
  const collector = new SchemaCollector("#/$defs");
  const { $ref } = collector.messageSchema(MandateDefinitionSchema, "request");
  const name = schemaName(MandateDefinitionSchema, "request");
  const { [name]: definition, ...others } = collector.schemas;
  const properties = definition?.properties as Record<string, JsonSchema>;
  const mandates = { type: "array", items: { $ref } };
  const list = {
    type: "object",
    required: ["mandates"],
    properties: { ...SCHEMA_MEMBER, mandates },
    additionalProperties: false,
  };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Mandates of an Agent Control Plane",
    anyOf: [{ $ref }, mandates, list],
    $defs: {
      ...others,
      [name]: { ...definition, properties: { ...SCHEMA_MEMBER, ...properties } },
    },
  };
}
