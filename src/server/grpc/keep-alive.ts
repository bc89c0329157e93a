import type { ServerHttp2Session } from "node:http2";

/** Time to wait for the answer to a ping before the connection is closed, milliseconds. */
const ANSWER_TIMEOUT_MS = 10_000;

/** Sends pings on a connection every `intervalMs` milliseconds, and closes it once one is not answered. */
export function keepAlive(session: ServerHttp2Session, intervalMs: number): void {
  let timer: NodeJS.Timeout;
  const rest = (): void => {
    timer = setTimeout(ping, intervalMs).unref();
  };
  const ping = (): void => {
    if (session.destroyed) return;
    timer = setTimeout(() => session.destroy(), ANSWER_TIMEOUT_MS).unref();
    session.ping(() => {
      clearTimeout(timer);
      if (!session.destroyed) rest();
    });
  };
  session.once("close", () => clearTimeout(timer));
  rest();
}
