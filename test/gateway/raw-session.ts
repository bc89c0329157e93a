/* A client of the generation with sessions that shows its answers as they came, byte by byte. */

import { request } from "node:http";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";

/** One answer, as it came. */
export interface RawAnswer {
  readonly status: number;
  readonly text: string;
  /** Its messages: the one of its body, or those of its events. */
  readonly messages: readonly Record<string, never>[];
}

/** A stream of a server's own messages. */
export interface Listening {
  /** What has come so far. */
  said(): string;
  /** Stops reading, and reads on. */
  pause(): void;
  resume(): void;
  stop(): void;
}

/** A session. */
export interface RawSession {
  /** What `initialize` answered. */
  readonly opened: RawAnswer;
  /** Sends a request. */
  ask(method: string, params?: object, id?: number): Promise<RawAnswer>;
  /** Opens the stream of the server's own messages. */
  listen(): Promise<Listening>;
}

const messagesOf = (body: string): RawAnswer["messages"] => {
  const texts = body.startsWith("{") ? [body] : [...body.matchAll(/^data: (.+)$/gm)].map(([, data = ""]) => data);
  return texts.map((each) => JSON.parse(each) as Record<string, never>);
};

export async function openRawSession(url: URL, who: Readonly<Record<string, string>>): Promise<RawSession> {
  let session: string | undefined;
  const send = (
    method: "GET" | "POST",
    body: object | undefined,
  ): Promise<Readable & { status: number; sessionId?: string }> =>
    new Promise((resolve, reject) => {
      const own = session === undefined ? {} : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" };
      const headers = {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...who,
        ...own,
      };
      request(url, { method, headers })
        .on("response", (response) => {
          const sessionId = response.headers["mcp-session-id"];
          resolve(Object.assign(response, { status: response.statusCode ?? 0, sessionId: sessionId as string }));
        })
        .on("error", reject)
        .end(body === undefined ? undefined : JSON.stringify({ jsonrpc: "2.0", ...body }));
    });
  const post = async (body: object): Promise<RawAnswer> => {
    const response = await send("POST", body);
    session ??= response.sessionId;
    const said = await text(response);
    return { status: response.status, text: said, messages: response.status < 400 ? messagesOf(said) : [] };
  };
  const about = {
    protocolVersion: "2025-11-25",
    capabilities: { elicitation: {} },
    clientInfo: { name: "raw", version: "1" },
  };
  const opened = await post({ id: 0, method: "initialize", params: about });
  await post({ method: "notifications/initialized" });
  let last = 0;
  return {
    opened,
    ask: (method, params = {}, id = ++last) => post({ id, method, params }),
    async listen() {
      const stream = await send("GET", undefined);
      let said = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        said += chunk;
      });
      stream.on("error", () => undefined);
      return {
        said: () => said,
        pause: () => stream.pause(),
        resume: () => stream.resume(),
        stop: () => stream.destroy(),
      };
    },
  };
}
