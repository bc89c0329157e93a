import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";

/** A server on a port of its own. */
export interface WebServer {
  /** `http://127.0.0.1:port/mcp`. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves a handler of web requests over HTTP/1.1. */
export async function serveWeb(handle: (request: Request) => Promise<Response>): Promise<WebServer> {
  const server = createServer(async (incoming, outgoing) => {
    const leaving = new AbortController();
    outgoing.once("close", () => leaving.abort());
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const { method = "GET", headers, url = "/" } = incoming;
    const body = chunks.length === 0 ? undefined : Buffer.concat(chunks);
    const init = { method, headers: headers as Record<string, string>, signal: leaving.signal };
    const request = new Request(`http://${headers.host}${url}`, body === undefined ? init : { ...init, body });
    const response = await handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    if (response.body === null) return void outgoing.end();
    Readable.fromWeb(response.body as never)
      .on("error", () => outgoing.destroy())
      .pipe(outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
