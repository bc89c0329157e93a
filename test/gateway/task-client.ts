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

/** Sends one stateless request of a client that declares tasks, or of one that does not. */
export async function send(
  url: URL,
  who: Readonly<Record<string, string>>,
  method: string,
  params: Readonly<Record<string, unknown>>,
  clientCapabilities: object = FRAMING.clientCapabilities,
  signal?: AbortSignal,
): Promise<Body> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": FRAMING.protocolVersion,
    "io.modelcontextprotocol/clientInfo": FRAMING.clientInfo,
    "io.modelcontextprotocol/clientCapabilities": clientCapabilities,
  };
  const name = params.name ?? params.taskId;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      ...who,
      "mcp-protocol-version": FRAMING.protocolVersion,
      "mcp-method": method,
      "mcp-name": String(name),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  return JSON.parse(text.startsWith("{") ? text : (/^data: (.+)$/m.exec(text)?.[1] ?? "{}")) as Body;
}
