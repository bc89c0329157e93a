/* A second reading of what reaches an MCP server, which shares nothing with the gateway: may the plain form of it pass? */
import { posix } from "node:path";
import { FORBIDDEN_TEXT } from "./lab.ts";
import type { Arrival, Arrived } from "./mcp-upstream.ts";

/** Prompt, argument and places that the rules of a lane block. */
export const FORBIDDEN = {
  prompt: "secret",
  completed: "password",
  folder: "file:///vault/",
  site: "https://bank.test/",
  text: FORBIDDEN_TEXT,
  amount: 500,
} as const;

const CALLER_ONLY = new Set([
  "ping",
  "logging/setLevel",
  "resources/list",
  "resources/templates/list",
  "prompts/list",
  "tasks/list",
  "notifications/roots/list_changed",
]);
/** Members of `params` by method. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  "tools/call": ["name", "arguments", "task"],
  "resources/read": ["uri"],
  "resources/subscribe": ["uri"],
  "prompts/get": ["name", "arguments"],
  "completion/complete": ["ref", "argument", "context"],
  "subscriptions/listen": ["notifications"],
};
const ROUND = ["inputResponses", "requestState"];
const META = /^(progressToken|traceparent|tracestate|baggage|io\.modelcontextprotocol\/.*)$/;

/** The decided methods. */
export const isDecided = (method: string | undefined): method is string => Object.hasOwn(MEMBERS, method ?? "");

/** Explains why a message may not have reached the server of a lane; undefined if it may. `approved`: arguments of `wire`. */
export function arrivalFault(
  { message, headers, generation }: Arrival,
  ownTasks: readonly string[],
  approved: object | undefined,
): string | undefined {
  if (message === undefined) return "a request that carries no message";
  const { method, params = {}, ...rest } = message;
  if (method === undefined) return "an answer to nothing";
  const odd = Object.keys(rest).filter((name) => !["jsonrpc", "id"].includes(name));
  if (odd.length > 0) return `the member ${odd}`;
  for (const name of ["x-api-key", "authorization", "x-agent-id", "cookie"]) {
    if (headers[name] !== undefined) return `the header ${name}`;
  }
  const told = headers["mcp-method"];
  if (told !== undefined && told !== method) return `the header Mcp-Method ${told}`;
  return (
    metaFault(params) ??
    methodFault(message, generation === "stateless", ownTasks, approved) ??
    headerFault(message, headers)
  );
}

function headerFault({ params = {} }: Arrived, headers: Arrival["headers"]): string | undefined {
  const given = headers["mcp-param-amount"];
  const { amount } = (params.arguments ?? {}) as { amount?: unknown };
  if (given !== undefined && given !== String(amount)) return `the header Mcp-Param-Amount ${given}`;
  const named = headers["mcp-name"];
  if (named === undefined || /^=\?/.test(String(named))) return undefined;
  return [params.name, params.uri, params.taskId].includes(named) ? undefined : `the header Mcp-Name ${named}`;
}

function metaFault({ _meta = {} }: Record<string, unknown>): string | undefined {
  const odd = Object.keys(_meta as object).filter((name) => !META.test(name));
  return odd.length === 0 ? undefined : `the member ${odd} of _meta`;
}

function methodFault(
  { method = "", params = {}, id }: Arrived,
  isStateless: boolean,
  ownTasks: readonly string[],
  approved: object | undefined,
): string | undefined {
  if (CALLER_ONLY.has(method)) return undefined;
  if (/^tasks\/(get|result|cancel|update)$/.test(method)) {
    return ownTasks.includes(params.taskId as string) ? undefined : "a task of another";
  }
  if (!isDecided(method)) return `the method ${method}`;
  if (id === undefined) return "a request without an id";
  const known = ["_meta", ...(MEMBERS[method] ?? []), ...(isStateless ? ROUND : [])];
  const odd = Object.keys(params).filter((name) => !known.includes(name));
  if (odd.length > 0) return `the member ${odd} of params`;
  return subjectFault(method, params, approved);
}

function subjectFault(
  method: string,
  params: Record<string, unknown>,
  approved: object | undefined,
): string | undefined {
  const args = (params.arguments ?? {}) as Record<string, unknown>;
  switch (method) {
    case "tools/call": {
      if (params.name === "read" || params.name === "task") return undefined;
      if (params.name === "wire") return JSON.stringify(args) === JSON.stringify(approved) ? undefined : "wire";
      if (params.name !== "pay") return `the tool ${params.name}`;
      if (Object.hasOwn(args, "note") && isSameText(args.note, FORBIDDEN.text)) return "pay, by its note";
      return Object.hasOwn(args, "amount") && isGreat(args.amount) ? "pay, by its amount" : undefined;
    }
    case "prompts/get":
      return isSameText(params.name, FORBIDDEN.prompt) ? "the prompt" : undefined;
    case "completion/complete":
      return isSameText((params.argument as { name?: unknown })?.name, FORBIDDEN.completed)
        ? "the completion"
        : undefined;
    case "subscriptions/listen": {
      const { resourceSubscriptions = [] } = params.notifications as { resourceSubscriptions?: unknown[] };
      return resourceSubscriptions.some(isForbiddenPlace) ? "a subscription" : undefined;
    }
    default:
      return isForbiddenPlace(params.uri) ? "the resource" : undefined;
  }
}

/** Compares as rules promise to: without case, white space around, and the form of composition. */
const isSameText = (value: unknown, wanted: string): boolean =>
  typeof value !== "string" || value.normalize("NFC").trim().toLowerCase() === wanted.normalize("NFC");

/** A number is what it is; anything else that is no small number is refused. */
function isGreat(value: unknown): boolean {
  // A missing argument.
  if (value === null) return false;
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number !== "number" || !(number <= FORBIDDEN.amount);
}

/** Reads an address as a lenient server does, which decodes it, follows its dots and asks for the host's own name. */
function isForbiddenPlace(uri: unknown): boolean {
  if (typeof uri !== "string") return true;
  const text = decoded(uri.replace(/[\p{Cc}\s]/gu, "").replaceAll("\\", "/")).toLowerCase();
  const [, scheme = "", rest = ""] = /^([a-z][a-z0-9+.-]*):(.*)$/s.exec(text) ?? [];
  if (scheme === "file") {
    const path = posix.normalize(`/${rest.replace(/^\/\/(localhost)?(?=\/)/, "")}`.replaceAll("//", "/"));
    return path.startsWith("/vault/");
  }
  if (scheme !== "https") return false;
  const host = /^\/*(?:[^/?#]*@)?([^/?#:]*)/.exec(rest)?.[1] ?? "";
  return (
    host
      .normalize("NFKC")
      .replaceAll("\u3002", ".")
      .replace(/\u00ad|\.+$/g, "") === "bank.test"
  );
}

const decoded = (text: string): string =>
  text.replace(/(%[0-9a-f]{2})+/gi, (each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
