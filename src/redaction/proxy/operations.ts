import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";

/** Target of a request to the proxy. */
export interface ProxyTarget {
  readonly workspaceId: string;
  /** Decoded path below `/v1`, with its slash: `/chat/completions`. */
  readonly path: string;
  readonly hasQuery: boolean;
}

/** One operation of OpenAI's API. */
interface Operation {
  readonly method: string;
  readonly path: RegExp;
  /** The path with names in the place of values. */
  readonly route: string;
  /** Name in spans, by OpenTelemetry's conventions of generative AI where these have one. */
  readonly name: string;
  /** Name of the API in spans, by the same conventions. */
  readonly api?: string;
}

const ROUTE = /^\/api\/redact\/([^/?]+)\/openai\/v1(\/[^?]*)?(\?.*)?$/;
/**
 * Operations that the proxy serves. They ask a model, or list models. Other operations read or change what is stored in the
 * account, which workspaces may share.
 */
const OPERATIONS: readonly Operation[] = [
  {
    method: "POST",
    path: /^\/chat\/completions$/,
    route: "/chat/completions",
    name: "chat",
    api: "chat_completions",
  },
  { method: "POST", path: /^\/completions$/, route: "/completions", name: "text_completion" },
  { method: "POST", path: /^\/responses$/, route: "/responses", name: "chat", api: "responses" },
  { method: "POST", path: /^\/embeddings$/, route: "/embeddings", name: "embeddings" },
  { method: "POST", path: /^\/moderations$/, route: "/moderations", name: "moderations" },
  { method: "GET", path: /^\/models$/, route: "/models", name: "models" },
  { method: "GET", path: /^\/models(\/\w[\w.:-]*){1,4}$/, route: "/models/{model}", name: "models" },
];

/** Returns the operation of a target; undefined for a path that the proxy does not serve. */
export const operationOf = ({ path }: ProxyTarget): Operation | undefined =>
  OPERATIONS.find((operation) => operation.path.test(path));

/** Parses a URL; undefined if it is not the proxy's. Throws INVALID_FIELD for a path with an invalid percent-encoding. */
export function parseTarget(url: string): ProxyTarget | undefined {
  const [, workspace, path = "/", query = ""] = ROUTE.exec(url) ?? [];
  if (workspace === undefined) return undefined;
  try {
    const hasQuery = query.length > 1;
    return { workspaceId: decodeURIComponent(workspace), path: decodeURIComponent(path), hasQuery };
  } catch (error) {
    throw invalidField("path", "is not a valid URL encoding", error);
  }
}

/**
 * Throws unless the proxy serves the operation: ROUTE_NOT_FOUND for another path, METHOD_NOT_ALLOWED for another method, and
 * INVALID_FIELD for a query. An accepted path has no characters that a URL would encode, so it goes upstream unchanged.
 */
export function assertServed(method: string, { path, hasQuery }: ProxyTarget): void {
  const allowed = OPERATIONS.filter((operation) => operation.path.test(path)).map((operation) => operation.method);
  if (allowed.length === 0) {
    const served = "`chat/completions`, `completions`, `responses`, `embeddings`, `moderations` and `models`";
    throw new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `the proxy serves only ${served}`);
  }
  if (!allowed.includes(method)) {
    const metadata = { method, allow: allowed.join(", ") };
    throw new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, `\`${method}\` is not served here`, metadata);
  }
  if (hasQuery) throw invalidField("query", "must be empty: the operations of the proxy take none");
}
