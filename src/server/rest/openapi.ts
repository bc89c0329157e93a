import { type DescField, type DescMethod, type DescService, getOption } from "@bufbuild/protobuf";
import { access, Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { comments } from "../../../gen/agentcontrol/v1/comments.js";
import { Turns } from "../../async/turns.ts";
import { oncePerServices } from "../once-per-services.ts";
import {
  ERROR_EXAMPLES,
  ERROR_SCHEMAS,
  errorResponses,
  reasonsOfRoute,
  SHARED_ERROR_RESPONSES,
} from "./openapi-errors.ts";
import { fieldExample, requestExample, responseExample } from "./openapi-examples.ts";
import { PAGE_TAGS, pagePaths, SECURITY_SCHEMES } from "./openapi-pages.ts";
import { isRequired, type JsonSchema, SchemaCollector } from "./openapi-schema.ts";
import { EVENT_STREAM_TYPE, JSON_TYPE, NDJSON_TYPE, outputOnlyFields } from "./request.ts";
import { type Route, routesOfServices } from "./routes.ts";

/** Title, version and address of the document. */
export interface OpenApiOptions {
  readonly title: string;
  readonly version: string;
  /** Base URL of the service. Default: the address from which the document was read. */
  readonly publicUrl?: string | undefined;
}

/** An OpenAPI 3.1 document. */
export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: Readonly<Record<string, unknown>>;
  readonly servers: readonly { readonly url: string; readonly description: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

const DESCRIPTION = `Decides what AI agents may do, before they do it. \`block\` and \`escalate\` are decisions, not errors.

- JSON is snake_case with lower-case enum words. Requests may leave out fields that are not required; \`null\` means absent, and an
  unknown field is refused. Responses have every field, \`null\` if it is unset.
- Integers of 64 bits are strings beyond 2^53-1; \`bytes\` are standard base64; times are RFC 3339 in UTC.
- Each path that begins with \`/v1\` is also served with the prefix \`/api\`. It is described once.
- Lists take \`page_size\` and \`page_token\`, and continue while \`next_page_token\` is set.
- Streams are Server-Sent Events with \`Accept: text/event-stream\`, else one JSON text per line. Resume with the last \`cursor\`.
- \`X-Request-Timeout-Ms\` sets the deadline of a call. Every response has an \`X-Request-Id\`, which the log names too.
- Each response that is not a success has the schema \`Error\`; its \`reason\` is stable across releases.`;

/** Describes the operations of services, with the schemas that they use. */
const describeServices = oncePerServices(async (services) => {
  const collector = new SchemaCollector();
  const paths: Record<string, Record<string, object>> = {};
  const turns = new Turns();
  for (const [, [route, ...others]] of Map.groupBy(
    routesOfServices(services, () => []),
    ({ method }) => method,
  )) {
    if (route === undefined) continue;
    const path = openApiPath(route);
    paths[path] ??= {};
    paths[path][route.httpMethod.toLowerCase()] = operation(route, others, collector);
    await turns.giveWay();
  }
  return { paths, schemas: collector.schemas };
});

/** Describes the REST interface of services, and the other operations of the same port, over several event-loop turns. */
export async function openApiFromServices(
  services: readonly DescService[],
  options: OpenApiOptions,
): Promise<OpenApiDocument> {
  const { title, version, publicUrl } = options;
  const { paths, schemas } = await describeServices(services);
  const description = publicUrl === undefined ? "The service that returned this description." : "The service.";
  return {
    openapi: "3.1.0",
    info: {
      title,
      version,
      summary: "The REST interface of a control plane between AI agents and their tools",
      description: DESCRIPTION,
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: publicUrl ?? "/", description }],
    tags: [...services.map(({ name, typeName }) => ({ name, description: comments[typeName] ?? name })), ...PAGE_TAGS],
    paths: { ...paths, ...pagePaths() },
    // Either scheme gives access to an operation.
    security: [{ api_key: [] }, { bearer: [] }],
    components: {
      schemas: { ...schemas, ...ERROR_SCHEMAS },
      responses: SHARED_ERROR_RESPONSES,
      examples: ERROR_EXAMPLES,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function openApiPath({ segments, verb }: Route): string {
  const parts = segments.map((segment) => (segment.kind === "literal" ? segment.text : `{${segment.field.name}}`));
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

/** Describes an RPC at its documented route; `others` are its other routes. */
function operation(route: Route, others: readonly Route[], collector: SchemaCollector): object {
  const { method, pathFields, queryFields } = route;
  const comment = comments[`${method.parent.typeName}.${method.name}`] ?? "";
  const parameter = (field: DescField, place: "path" | "query") => {
    const { description, ...schema } = collector.fieldSchema(field, "request");
    const required = place === "path" || isRequired(field);
    const example = required
      ? { example: requestExample(method.input, [field])[field.name] ?? fieldExample(field, "request") }
      : {};
    return { name: field.name, in: place, required, description, schema, ...example };
  };
  return {
    operationId: `${method.parent.name}_${method.name}`,
    tags: [method.parent.name],
    summary: firstSentence(comment),
    description: [comment, rolesText(method), ...others.map(aliasText)].join("\n\n"),
    parameters: [
      ...pathFields.map((field) => parameter(field, "path")),
      ...queryFields.map((field) => parameter(field, "query")),
    ],
    ...requestBody(route, collector),
    responses: { 200: success(method, collector), ...errorResponses(reasonsOfRoute(route)) },
  };
}

/** Returns a comment's first sentence without its full stop. */
const firstSentence = (comment: string): string => comment.split(/(?<=\.)\s/, 1)[0]?.replace(/\.$/, "") ?? "";

function rolesText(method: DescMethod): string {
  const roles = getOption(method, access).roles.map((role) => `\`${Role[role]?.toLowerCase()}\``);
  return `Keys of the role ${roles.join(", ")} may call it.`;
}

const aliasText = (route: Route): string => `Also served as \`${route.httpMethod} ${openApiPath(route)}\`.`;

function requestBody(route: Route, collector: SchemaCollector): object {
  const { method, pathFields, body } = route;
  if (body === "none") return {};
  const required = method.input.fields.filter((field) => isRequired(field) && !pathFields.includes(field));
  const example = Object.fromEntries(
    Object.entries(requestExample(method.input, required)).filter(
      ([name]) => !pathFields.some((each) => each.name === name),
    ),
  );
  const isField = body !== "message";
  const content = isField
    ? { schema: collector.fieldSchema(body, "request"), example: requestExample(method.input, []) }
    : { schema: bodySchema(), example };
  return { requestBody: { required: isField || required.length > 0, content: { [JSON_TYPE]: content } } };

  function bodySchema(): JsonSchema {
    if (pathFields.length === 0) return collector.messageSchema(method.input, "request");
    const fields = method.input.fields.filter((field) => !pathFields.includes(field));
    const schema = collector.objectSchema(fields, "request");
    const ignored = outputOnlyFields(route).map(({ name }) => [name, { readOnly: true }]);
    return { ...schema, properties: { ...(schema.properties as object), ...Object.fromEntries(ignored) } };
  }
}

function success(method: DescMethod, collector: SchemaCollector): object {
  const schema = collector.messageSchema(method.output, "response");
  const example = responseExample(method.output);
  if (method.methodKind === "unary") {
    return { description: "The call succeeded.", content: { [JSON_TYPE]: { schema, example } } };
  }
  const id = typeof example.cursor === "string" ? `id: ${example.cursor}\n` : "";
  const events = { type: "string", description: "Server-Sent Events whose `data` is one message each, as JSON." };
  return {
    description:
      "The stream is open. A failure after that is its last message, as `Error`; in Server-Sent Events it has the event `error`.",
    content: {
      [NDJSON_TYPE]: { schema, example },
      [EVENT_STREAM_TYPE]: { schema: events, example: `${id}data: ${JSON.stringify(example)}\n\n` },
    },
  };
}
