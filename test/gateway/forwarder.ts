import { createServer, request as open, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A forwarder that adds headers, keeps all others, `Host` and `Origin` among them, and buffers nothing. */
export interface Forwarder {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts a forwarder in front of a URL. */
export async function startForwarder(to: URL, headers: Readonly<Record<string, string>>): Promise<Forwarder> {
  const server: Server = createServer((request, response) => {
    const { hostname, port, pathname } = to;
    const options = {
      hostname,
      port,
      path: pathname,
      method: request.method,
      headers: { ...request.headers, ...headers },
    };
    const onward = open(options, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
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
