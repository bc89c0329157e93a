import type { DescField, DescMessage, DescMethod, DescService } from "@bufbuild/protobuf";
import { EVENT_STREAM_TYPE, JSON_TYPE, NDJSON_TYPE } from "./accept.ts";
import { type CommentReader, createCommentReader } from "./comments.ts";
import { type HttpBinding, httpBindingsFromMethod } from "./http-rule.ts";
import { isRequired, type JsonSchema } from "./openapi-rules.ts";
import { createSchemaCollector, type SchemaCollector } from "./openapi-schema.ts";
import { type PathTemplate, parsePathTemplate } from "./path-template.ts";
import { isTextual } from "./well-known.ts";

/** What the document says of itself and which paths it lists. */
export interface OpenApiOptions {
  readonly title: string;
  readonly version: string;
  readonly description?: string;
  /** More templates under which a template is served as well. Default none. */
  readonly aliases?: (template: string) => readonly string[];
  /** `components.securitySchemes`; a caller may use any one of them. Default none. */
  readonly securitySchemes?: Readonly<Record<string, object>>;
}

/** An OpenAPI 3.1 document. */
export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: Readonly<Record<string, string>>;
  readonly tags: readonly object[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
  readonly security?: readonly object[];
}

interface Builder {
  readonly comments: CommentReader;
  readonly collector: SchemaCollector;
  readonly operationIds: Map<string, number>;
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

/** Describes the REST interface of services. Comments appear where the descriptors carry them. */
export function openApiFromServices(services: readonly DescService[], options: OpenApiOptions): OpenApiDocument {
  const comments = createCommentReader();
  const builder: Builder = { comments, collector: createSchemaCollector(comments), operationIds: new Map() };
  const paths = pathsOfServices(services, options.aliases ?? (() => []), builder);
  const { title, version, description, securitySchemes } = options;
  const error = { description: "The call failed.", content: { [JSON_TYPE]: { schema: ERROR_SCHEMA } } };
  return {
    openapi: "3.1.0",
    info: { title, version, ...(description === undefined ? {} : { description }) },
    tags: services.map((service) => ({ name: service.name, ...described(comments.commentOf(service)) })),
    paths,
    components: {
      schemas: builder.collector.schemas,
      responses: { error },
      ...(securitySchemes === undefined ? {} : { securitySchemes: { ...securitySchemes } }),
    },
    ...(securitySchemes === undefined
      ? {}
      : { security: Object.keys(securitySchemes).map((name) => ({ [name]: [] })) }),
  };
}

function pathsOfServices(
  services: readonly DescService[],
  aliases: (template: string) => readonly string[],
  builder: Builder,
): Record<string, Record<string, object>> {
  const paths: Record<string, Record<string, object>> = {};
  for (const method of services.flatMap((service) => service.methods)) {
    for (const binding of httpBindingsFromMethod(method)) {
      for (const text of [binding.template, ...aliases(binding.template)]) {
        const template = parsePathTemplate(text);
        const path = openApiPath(template);
        paths[path] ??= {};
        paths[path][binding.httpMethod.toLowerCase()] ??= operation(method, binding, template, builder);
      }
    }
  }
  return paths;
}

/** The path as OpenAPI writes it: a variable stands for its segments, whatever their pattern. */
export function openApiPath({ segments, variables, verb }: PathTemplate): string {
  const parts: string[] = [];
  for (let index = 0; index < segments.length; index++) {
    const variable = variables.find(({ start }) => start === index);
    const segment = segments[index];
    if (variable !== undefined) {
      parts.push(`{${variable.fieldPath}}`);
      index = (variable.end ?? segments.length) - 1;
    } else parts.push(segment?.kind === "literal" ? segment.text : "*");
  }
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

function operation(method: DescMethod, binding: HttpBinding, template: PathTemplate, builder: Builder): object {
  const { input } = method;
  const pathFields = template.variables.map(({ fieldPath }) => fieldPath);
  const taken = new Set([...pathFields, ...(typeof binding.body === "string" ? [] : [binding.body.name])]);
  const query = binding.body === "message" ? [] : queryParameters(input, taken, builder);
  const comment = builder.comments.commentOf(method);
  return {
    operationId: operationId(method, builder),
    tags: [method.parent.name],
    ...(comment === "" ? {} : { summary: firstSentence(comment), description: comment }),
    ...(method.deprecated ? { deprecated: true } : {}),
    parameters: [...pathFields.map((path) => pathParameter(input, path, builder)), ...query],
    ...requestBody(input, binding, taken, builder),
    responses: { 200: success(method, binding, builder), default: { $ref: ERROR_REF } },
  };
}

// Every path of an RPC needs an id of its own.
function operationId(method: DescMethod, { operationIds }: Builder): string {
  const name = `${method.parent.name}_${method.name}`;
  const count = (operationIds.get(name) ?? 0) + 1;
  operationIds.set(name, count);
  return count === 1 ? name : `${name}_${count}`;
}

function pathParameter(input: DescMessage, fieldPath: string, { collector }: Builder): object {
  let desc: DescMessage | undefined = input;
  let field: DescField | undefined;
  for (const name of fieldPath.split(".")) {
    field = desc?.fields.find((each) => each.name === name);
    desc = field?.message;
  }
  if (field === undefined) throw new Error(`${input} has no field \`${fieldPath}\``);
  return { name: fieldPath, in: "path", required: true, schema: collector.fieldSchema(field, "request") };
}

function queryParameters(desc: DescMessage, taken: ReadonlySet<string>, builder: Builder): object[] {
  return textFields(desc, "", [desc]).flatMap(({ field, path }) =>
    taken.has(path)
      ? []
      : [
          {
            name: path,
            in: "query",
            required: isRequired(field),
            schema: builder.collector.fieldSchema(field, "request"),
          },
        ],
  );
}

interface TextField {
  readonly field: DescField;
  readonly path: string;
}

function textFields(desc: DescMessage, prefix: string, above: readonly DescMessage[]): TextField[] {
  return desc.fields.flatMap((field) => {
    const path = prefix + field.name;
    const { message } = field;
    if (field.fieldKind === "map") return [];
    if (message === undefined || isTextual(message)) return [{ field, path }];
    const isNested =
      field.fieldKind === "message" && !above.includes(message) && !message.typeName.startsWith("google.");
    return isNested ? textFields(message, `${path}.`, [...above, message]) : [];
  });
}

function requestBody(input: DescMessage, binding: HttpBinding, taken: ReadonlySet<string>, builder: Builder): object {
  const { body } = binding;
  if (body === "none") return {};
  const { collector } = builder;
  const fields = input.fields.filter((field) => !taken.has(field.name));
  const whole = () =>
    taken.size === 0 ? collector.messageSchema(input, "request") : collector.objectSchema(fields, "request");
  const schema = body === "message" ? whole() : collector.fieldSchema(body, "request");
  return { requestBody: { required: fields.some(isRequired), content: { [JSON_TYPE]: { schema } } } };
}

function success(method: DescMethod, { responseBody }: HttpBinding, { collector, comments }: Builder): object {
  const schema = responseBody
    ? collector.fieldSchema(responseBody, "response")
    : collector.messageSchema(method.output, "response");
  const description = firstSentence(comments.commentOf(method.output)) || "The call succeeded.";
  if (method.methodKind === "unary") return { description, content: { [JSON_TYPE]: { schema } } };
  const events = {
    schema: { type: "string", description: "Server-Sent Events whose `data` is one JSON message each." },
  };
  return { description, content: { [NDJSON_TYPE]: { schema }, [EVENT_STREAM_TYPE]: events } };
}

function described(text: string): object {
  return text === "" ? {} : { description: text };
}

function firstSentence(text: string): string {
  const flat = text.replaceAll("\n", " ");
  return /^.*?[.!?](?=\s|$)/.exec(flat)?.[0] ?? flat;
}
