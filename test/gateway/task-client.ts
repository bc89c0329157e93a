/* A client of 2026-07-28 that takes tasks, by hand: the official client leaves their wire to its host. */

export const EXTENSION = "io.modelcontextprotocol/tasks";
export const FRAMING = {
  protocolVersion: "2026-07-28",
  clientInfo: { name: "test", version: "1" },
  clientCapabilities: { extensions: { [EXTENSION]: {} } },
};
/** An answer. */
export type Body = { result?: Record<string, unknown>; error?: { code: number; message: string; data?: object } };
/** A task as it is on the wire. */
export type Task = {
  taskId: string;
  status: string;
  statusMessage?: string;
  result?: Result;
  error?: { message: string };
};
type Result = { content: { text: string }[]; isError?: boolean };

/** The text of a completed task's result. */
export const textOf = (task: Task): string => task.result?.content[0]?.text ?? "";

/** A stateless request on the wire. */
export interface WireRequest {
  readonly method: "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Writes one stateless request of a client that declares tasks, or of one that does not. */
export function wireRequest(
  who: Readonly<Record<string, string>>,
  method: string,
  params: Readonly<Record<string, unknown>>,
  clientCapabilities: object = FRAMING.clientCapabilities,
): WireRequest {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": FRAMING.protocolVersion,
    "io.modelcontextprotocol/clientInfo": FRAMING.clientInfo,
    "io.modelcontextprotocol/clientCapabilities": clientCapabilities,
  };
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    ...who,
    "mcp-protocol-version": FRAMING.protocolVersion,
    "mcp-method": method,
    "mcp-name": String(params.name ?? params.taskId),
  };
  return {
    method: "POST",
    headers,
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  };
}

/** Sends one stateless request, as `wireRequest` writes it. */
export async function send(
  url: URL,
  who: Readonly<Record<string, string>>,
  method: string,
  params: Readonly<Record<string, unknown>>,
  clientCapabilities?: object,
  signal?: AbortSignal,
): Promise<Body> {
  const request = wireRequest(who, method, params, clientCapabilities);
  const response = await fetch(url, { ...request, ...(signal === undefined ? {} : { signal }) });
  const text = await response.text();
  return JSON.parse(text.startsWith("{") ? text : (/^data: (.+)$/m.exec(text)?.[1] ?? "{}")) as Body;
}
