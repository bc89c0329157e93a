import type { OpenApiDocument } from "./rest/openapi.ts";

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: unknown;
  readonly responses: unknown;
}

interface Entry {
  readonly path: string;
  readonly httpMethod: string;
  readonly operation: Operation;
}

/** Admits the page's own style and nothing else: it has no script and loads nothing. */
export const DOCS_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #d0d7de}summary{cursor:pointer;padding:.25rem 0;overflow-wrap:anywhere}
code,pre{font:13px/1.5 ui-monospace,monospace}pre{background:#f6f8fa;padding:.75rem;overflow:auto}
b{display:inline-block;min-width:4.5rem}td,th{text-align:left;padding:.1rem 1rem .1rem 0}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}a{color:#58a6ff}}`;

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ESCAPES[character] ?? character);
const json = (value: unknown): string => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;

/** Renders the description of the REST interface as one page of HTML. */
export function docsPageFrom(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([httpMethod, operation]) => ({ path, httpMethod, operation: operation as Operation })),
  );
  const byService = Map.groupBy(entries, ({ operation }) => operation.tags[0] ?? "");
  const { title = "", version = "" } = document.info;
  const links = [...byService.keys()].map((name) => `<a href="#${escaped(name)}">${escaped(name)}</a>`);
  const schemas = Object.entries(document.components.schemas ?? {});
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title><style>${STYLE}</style></head><body>
<h1>${escaped(title)} ${escaped(version)}</h1>
<p>The REST interface, as <a href="/openapi.json">/openapi.json</a> describes it. Send the key as <code>X-API-Key</code> or as
<code>Authorization: Bearer</code>.</p>
<nav>${links.join(" · ")} · <a href="#schemas">Schemas</a></nav>
${[...byService].map(([name, listed]) => serviceSection(name, listed)).join("\n")}
<h2 id="schemas">Schemas</h2>
${schemas.map(([name, schema]) => `<details id="${escaped(name)}"><summary><code>${escaped(name)}</code></summary>${json(schema)}</details>`).join("\n")}
</body></html>
`;
}

function serviceSection(name: string, entries: readonly Entry[]): string {
  return `<h2 id="${escaped(name)}">${escaped(name)}</h2>\n${entries.map(operationDetails).join("\n")}`;
}

function operationDetails({ path, httpMethod, operation }: Entry): string {
  const { operationId, parameters, requestBody, responses } = operation;
  const rows = parameters.map(
    ({ name, in: place, required }) =>
      `<tr><td><code>${escaped(name)}</code></td><td>${place}</td><td>${required ? "required" : ""}</td></tr>`,
  );
  return `<details id="${escaped(operationId)}"><summary><b>${httpMethod.toUpperCase()}</b> <code>${escaped(path)}</code></summary>
${rows.length === 0 ? "" : `<table>${rows.join("")}</table>`}
${requestBody === undefined ? "" : `<p>Request</p>${json(requestBody)}`}<p>Responses</p>${json(responses)}</details>`;
}
