import { nextTurn } from "../../async/turns.ts";
import { escaped } from "../html.ts";
import type { OpenApiDocument } from "../rest/openapi.ts";
import type { JsonSchema } from "../rest/openapi-schema.ts";
import { codeBlock } from "./code-block.ts";
import { headingHtml } from "./heading.ts";
import { renderInline, renderText } from "./markdown.ts";

interface Media {
  readonly schema?: JsonSchema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, unknown>>;
}

interface Reply {
  readonly $ref?: string;
  readonly description?: string;
  readonly content?: Readonly<Record<string, Media>>;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security?: readonly unknown[];
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly description?: string;
    readonly schema: JsonSchema;
    readonly example?: unknown;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Reply>>;
}

/** An operation with its path and HTTP method. */
export interface ReferenceEntry {
  readonly path: string;
  readonly httpMethod: string;
  readonly operation: Operation;
}

/** Returns every operation of a description. */
export const entriesOf = ({ paths }: OpenApiDocument): readonly ReferenceEntry[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([httpMethod, operation]) => ({
      path,
      httpMethod: httpMethod.toUpperCase(),
      operation: operation as Operation,
    })),
  );

const json = (value: unknown): string => codeBlock(JSON.stringify(value, null, 2), "json");
const table = (head: readonly string[], rows: readonly string[]): string =>
  rows.length === 0
    ? ""
    : `<div class="table" tabindex="0"><table><thead><tr>${head.map((each) => `<th>${each}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div>`;

/** Renders the overview: the common rules of every call, and the operations by service. */
export function overviewHtml({ info, tags }: OpenApiDocument, entries: readonly ReferenceEntry[]): string {
  const sections = tags.map(({ name, description }) => {
    const items = entries
      .filter(({ operation }) => operation.tags.includes(name))
      .map(
        ({ operation, path, httpMethod }) =>
          `<li><a href="/docs/reference/${name}#${operation.operationId}"><span class="method">${httpMethod}</span><code>${escaped(path)}</code></a> ${renderInline(operation.summary)}</li>`,
      );
    return `${headingHtml(2, name, escaped(name))}${renderText(description)}<ul class="operations">${items.join("")}</ul>`;
  });
  return `<h1>REST reference</h1>${renderText(String(info.description))}<p><a href="/docs/guides/rest">REST clients</a> generate their
types from <a href="/openapi.json">/openapi.json</a>. The same calls are served over gRPC, Connect and gRPC-Web.</p>${sections.join("")}`;
}

/** Renders the operations of a service. */
export function serviceHtml(document: OpenApiDocument, tag: string, entries: readonly ReferenceEntry[]): string {
  const { description = "" } = document.tags.find(({ name }) => name === tag) ?? {};
  const own = entries.filter(({ operation }) => operation.tags.includes(tag));
  return `<h1>${escaped(tag)}</h1>${renderText(description)}${own.map((entry) => operationHtml(document, entry)).join("")}`;
}

function operationHtml(document: OpenApiDocument, entry: ReferenceEntry): string {
  const { path, httpMethod, operation } = entry;
  const { operationId, description, responses, requestBody, parameters, security } = operation;
  const rows = parameters.map(
    (each) =>
      `<tr><td><code>${escaped(each.name)}</code></td><td>${each.in}</td><td>${neededHtml(each.required)}${typeHtml(each.schema)}</td><td>${renderText(each.description ?? "")}</td></tr>`,
  );
  const body = requestBody?.content["application/json"];
  const part = (title: string): string => headingHtml(3, `${operationId}-${title.toLowerCase()}`, title);
  return `<section class="operation">${headingHtml(2, operationId, `<span class="method">${httpMethod}</span><code>${escaped(path)}</code>`)}
<p class="soft">${escaped(operationId)}${security?.length === 0 ? " · needs no key" : ""}</p>${reasonsLinked(document, renderText(description))}
${table(["Parameter", "In", "Type", "Meaning"], rows)}
${body === undefined ? "" : `${part("Request")}${fieldsTable(document, body.schema)}`}
${part("Call")}${codeBlock(curlOf(entry, body?.example), "sh")}
${part("Response")}${Object.entries(responses)
  .filter(([status]) => status.startsWith("2"))
  .map(([status, reply]) => successHtml(status, reply))
  .join("")}
${part("Errors")}${errorsTable(document, responses)}</section>`;
}

/** Links the error reasons in a text to their documentation. */
function reasonsLinked({ components }: OpenApiDocument, html: string): string {
  const known = components.examples ?? {};
  return html.replace(/\b[A-Z][A-Z_]{3,}\b/g, (word) => (Object.hasOwn(known, word) ? reasonLink(word) : word));
}

const reasonLink = (word: string): string => `<a href="/docs/guides/errors#${word.toLowerCase()}">${word}</a>`;

function curlOf({ path, httpMethod, operation }: ReferenceEntry, example: unknown): string {
  const filled = operation.parameters
    .filter((each) => each.in === "path")
    .reduce(
      (text, { name, example: value }) => text.replace(`{${name}}`, encodeURIComponent(String(value ?? name))),
      path,
    );
  const query = operation.parameters
    .filter((each) => each.in === "query" && each.required)
    .map(({ name, example: value }) => `${name}=${encodeURIComponent(String(value))}`);
  const url = `"$URL${filled}${query.length > 0 ? `?${query.join("&")}` : ""}"`;
  const key = operation.security?.length === 0 ? "" : ' -H "X-API-Key: $KEY"';
  const type = Object.keys(operation.responses["200"]?.content ?? {});
  const accept = type.includes("application/x-ndjson") ? " -N -H 'Accept: text/event-stream'" : "";
  const data =
    example === undefined ? "" : ` \\\n  -H 'Content-Type: application/json' -d '${JSON.stringify(example)}'`;
  return `curl${httpMethod === "GET" ? "" : ` -X ${httpMethod}`} ${url}${key}${accept}${data}`;
}

function successHtml(status: string, { description = "", content = {} }: Reply): string {
  const media = Object.entries(content).map(([type, { schema = {}, example }]) => {
    const text = typeof example === "string" ? codeBlock(example) : json(example);
    return `<p><code>${escaped(type)}</code> ${typeHtml(schema)}</p>${example === undefined ? "" : text}`;
  });
  return `<p><b>${status}</b> ${escaped(description)}</p>${media.join("")}`;
}

function errorsTable({ components }: OpenApiDocument, responses: Readonly<Record<string, Reply>>): string {
  const rows = Object.entries(responses).flatMap(([status, reply]) => {
    if (status.startsWith("2") || status === "default") return [];
    const shown =
      reply.$ref === undefined ? reply : (components.responses?.[reply.$ref.split("/").at(-1) ?? ""] as Reply);
    const words = Object.keys(shown.content?.["application/json"]?.examples ?? {});
    return words.map((word) => {
      const { summary = "" } = (components.examples?.[word] ?? {}) as { readonly summary?: string };
      return `<tr><td>${status}</td><td>${reasonLink(word)}</td><td>${renderText(summary)}</td></tr>`;
    });
  });
  return table(["Status", "Reason", "When"], rows);
}

/** Schemas that are rendered in one turn of the event loop. */
const SCHEMAS_A_TURN = 25;

/** Renders every schema, over several event-loop turns. */
export async function schemasHtml(document: OpenApiDocument): Promise<string> {
  const schemas = Object.entries(document.components.schemas ?? {}) as [string, JsonSchema][];
  const sections: string[] = [];
  for (const [name, schema] of schemas.sort(([a], [b]) => a.localeCompare(b))) {
    const text = renderText(String(schema.description ?? ""));
    sections.push(`<section>${headingHtml(2, name, escaped(name))}${text}${fieldsTable(document, schema)}</section>`);
    if (sections.length % SCHEMAS_A_TURN === 0) await nextTurn();
  }
  return `<h1>Schemas</h1><p>Schemas whose name ends in <code>Request</code> or <code>Input</code> are sent; all others are received.</p>${sections.join("")}`;
}

function fieldsTable({ components }: OpenApiDocument, schema: JsonSchema = {}): string {
  const { $ref } = schema as { readonly $ref?: string };
  const shown = $ref === undefined ? schema : ((components.schemas?.[nameOf($ref)] ?? {}) as JsonSchema);
  const { properties = {}, required = [] } = shown as {
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
  };
  const isSent = shown.additionalProperties === false;
  const rows = Object.entries(properties).map(([name, each]) => {
    const needed = neededHtml(isSent && required.includes(name));
    const text = renderText(String(each.description ?? ""));
    return `<tr><td><code>${escaped(name)}</code></td><td>${needed}${typeHtml(each)}</td><td>${text}</td></tr>`;
  });
  return table(["Field", "Type", "Meaning"], rows);
}

const nameOf = (ref: string): string => ref.split("/").at(-1) ?? "";
const BOUNDS: Readonly<Record<string, string>> = {
  minLength: "min. length",
  maxLength: "max. length",
  minItems: "min. items",
  maxItems: "max. items",
  minimum: "min.",
  maximum: "max.",
};

const neededHtml = (isRequired: boolean): string => (isRequired ? "<b>required</b>; " : "");

/** Renders the type of a value, with links to schemas. */
function typeHtml(schema: JsonSchema): string {
  const {
    $ref,
    type,
    items,
    anyOf,
    format,
    enum: words,
  } = schema as {
    readonly $ref?: string;
    readonly type?: string | readonly string[];
    readonly items?: JsonSchema;
    readonly anyOf?: readonly JsonSchema[];
    readonly format?: string;
    readonly enum?: readonly string[];
  };
  if ($ref !== undefined) return `<a href="/docs/schemas#${nameOf($ref)}">${nameOf($ref)}</a>`;
  if (anyOf !== undefined) return anyOf.map(typeHtml).join(" or ");
  if (items !== undefined && type === "array") return `list of ${typeHtml(items)}`;
  const bounds = Object.entries(BOUNDS).flatMap(([keyword, name]) =>
    schema[keyword] === undefined ? [] : [`${name} ${Number(schema[keyword]).toLocaleString("en")}`],
  );
  const allowed = words === undefined ? [] : [words.map((word) => `<code>${escaped(String(word))}</code>`).join(" ")];
  const kind = [[type ?? "any JSON"].flat().join(" or "), format].filter((each) => each !== undefined).join(", ");
  return [kind, ...bounds, ...allowed].join("; ");
}
