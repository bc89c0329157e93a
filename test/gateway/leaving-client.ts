/* A stateless client that leaves when it likes, and a server whose calls end when the test says. */

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { send, wireRequest } from "./task-client.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";

export type Answer = {
  result?: { content: { text: string }[]; isError?: boolean; _meta?: Record<string, Record<string, string>> };
  error?: { code: number; message: string };
};

export const textOf = ({ result, error }: Answer): string => result?.content[0]?.text ?? error?.message ?? "";
export const decisionOf = ({ result }: Answer): Record<string, string> =>
  result?._meta?.["agentcontrol.v1/decision"] ?? {};

/** Calls a tool as a stateless client that declares nothing. */
export async function call(
  url: URL,
  who: Readonly<Record<string, string>>,
  params: object,
  signal?: AbortSignal,
): Promise<Answer> {
  return (await send(url, who, "tools/call", params as never, {}, signal)) as Answer;
}

/** A call of a client that leaves before it is answered. */
export interface LeavingCall {
  /** Leaves. Resolves once the gateway has closed its side: until it notices, it may take an answer for delivered. */
  leave(): Promise<void>;
}

/** Calls a tool as `call` does, for a client that leaves. */
export function leavingCall(url: URL, who: Readonly<Record<string, string>>, params: object): LeavingCall {
  const { method, headers, body } = wireRequest(who, "tools/call", params as never, {});
  const request = httpRequest(url, { method, headers, agent: false });
  request.on("error", () => undefined);
  request.end(body);
  return {
    async leave() {
      const { socket } = request;
      if (socket === null) throw new Error("the call was not sent yet");
      const closed = once(socket, "close");
      socket.end();
      await closed;
    },
  };
}

/** A server whose calls end when the test says. */
export interface SlowServer extends ToolsServer {
  /** Ends the oldest open call with a text. */
  finish(text?: string): void;
  /** Calls that the server was told to cancel. */
  cancelled: number;
  /** Calls that run. */
  readonly open: number;
}

export async function startSlowServer(): Promise<SlowServer> {
  const server = await startToolsServer([tool("pay"), tool("read")]);
  const open: ((text: string) => void)[] = [];
  const slow = Object.assign(server, {
    cancelled: 0,
    finish: (text = "paid") => open.shift()?.(text),
  }) as unknown as SlowServer;
  Object.defineProperty(slow, "open", { get: () => open.length });
  slow.answer = (_name, _args, signal) =>
    new Promise((resolve) => {
      const end = (text: string) => resolve({ content: [{ type: "text", text }] });
      open.push(end);
      signal.addEventListener("abort", () => {
        slow.cancelled += 1;
        open.splice(open.indexOf(end), 1);
        end("cancelled");
      });
    });
  return slow;
}
