import type { DescField, DescMethod, DescService } from "@bufbuild/protobuf";
import { EVENT_STREAM_TYPE, JSON_TYPE, NDJSON_TYPE } from "./accept.ts";
import { isRequired, type JsonSchema, SchemaCollector } from "./openapi-schema.ts";
import { outputOnlyFields } from "./output-only.ts";
import { type Aliases, type Route, routesOfServices } from "./routes.ts";

/** Title, version and paths of the document. */
export interface OpenApiOptions {
  readonly title: string;
  readonly version: string;
  readonly aliases: Aliases;
}

/** An OpenAPI 3.1 document. */
export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: Readonly<Record<string, string>>;
  readonly tags: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

const ERROR_REF = "#/components/responses/error";
const ERROR_SCHEMA: JsonSchema = {
  type: "object",
  required: ["ok", "error"],
  properties: {
    ok: { const: false },
    error: {
      type: "object",
      required: ["code", "status", "message", "details"],
      properties: {
        code: { type: "integer", description: "The HTTP status." },
        status: { type: "string", examples: ["INVALID_ARGUMENT"] },
        message: { type: "string" },
        details: { type: "array", items: { type: "object", additionalProperties: true } },
      },
    },
  },
};
const ERROR = { description: "The call failed.", content: { [JSON_TYPE]: { schema: ERROR_SCHEMA } } };

const SECURITY_SCHEMES = {
  api_key: { type: "apiKey", in: "header", name: "X-API-Key", description: "A key of the workspace." },
  bearer: { type: "http", scheme: "bearer", description: "The same key as `Authorization: Bearer`." },
};
/** Either of them opens an operation. */
const SECURITY = Object.keys(SECURITY_SCHEMES).map((name) => ({ [name]: [] }));

/** Describes the REST interface of services. */
export function openApiFromServices(services: readonly DescService[], options: OpenApiOptions): OpenApiDocument {
  const { title, version, aliases } = options;
  const collector = new SchemaCollector();
  const paths: Record<string, Record<string, object>> = {};
  const timesNamed = new Map<DescMethod, number>();
  for (const route of routesOfServices(services, aliases)) {
    const times = (timesNamed.get(route.method) ?? 0) + 1;
    timesNamed.set(route.method, times);
    const path = openApiPath(route);
    paths[path] ??= {};
    paths[path][route.httpMethod.toLowerCase()] = operation(route, times, collector);
  }
  return {
    openapi: "3.1.0",
    info: { title, version },
    tags: services.map(({ name }) => ({ name })),
    paths,
    security: SECURITY,
    components: { schemas: collector.schemas, responses: { error: ERROR }, securitySchemes: SECURITY_SCHEMES },
  };
}

function openApiPath({ segments, verb }: Route): string {
  const parts = segments.map((segment) => (segment.kind === "literal" ? segment.text : `{${segment.field.name}}`));
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

/** Describes one route. `times` counts the routes of its RPC so far, because each needs an id of its own. */
function operation(route: Route, times: number, collector: SchemaCollector): object {
  const { method, pathFields, queryFields } = route;
  const name = `${method.parent.name}_${method.name}`;
  const parameter = (field: DescField, place: "path" | "query") => {
    const required = place === "path" || isRequired(field);
    return { name: field.name, in: place, required, schema: collector.fieldSchema(field, "request") };
  };
  return {
    operationId: times === 1 ? name : `${name}_${times}`,
    tags: [method.parent.name],
    parameters: [
      ...pathFields.map((field) => parameter(field, "path")),
      ...queryFields.map((field) => parameter(field, "query")),
    ],
    ...requestBody(route, collector),
    responses: { 200: success(method, collector), default: { $ref: ERROR_REF } },
    security: SECURITY,
  };
}

function requestBody(route: Route, collector: SchemaCollector): object {
  const { method, pathFields, body } = route;
  if (body === "none") return {};
  const fields = body === "message" ? method.input.fields.filter((field) => !pathFields.includes(field)) : [body];
  return { requestBody: { required: fields.some(isRequired), content: { [JSON_TYPE]: { schema: bodySchema() } } } };

  function bodySchema(): JsonSchema {
    if (body !== "message") return collector.fieldSchema(body as DescField, "request");
    if (pathFields.length === 0) return collector.messageSchema(method.input, "request");
    const schema = collector.objectSchema(fields, "request");
    const ignored = outputOnlyFields(route).map(({ name }) => [name, { readOnly: true }]);
    return { ...schema, properties: { ...(schema.properties as object), ...Object.fromEntries(ignored) } };
  }
}

function success(method: DescMethod, collector: SchemaCollector): object {
  const description = "The call succeeded.";
  const schema = collector.messageSchema(method.output, "response");
  if (method.methodKind === "unary") return { description, content: { [JSON_TYPE]: { schema } } };
  const events = {
    schema: { type: "string", description: "Server-Sent Events whose `data` is one JSON message each." },
  };
  return { description, content: { [NDJSON_TYPE]: { schema }, [EVENT_STREAM_TYPE]: events } };
}
