import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { QueryClient } from "@tanstack/react-query";
import { requestErrorFrom } from "../client/request-error.ts";
import type { Session } from "./session.ts";

/** Connects to the service that served the page. Calls `onSignedOut` when the service no longer accepts the session. */
export function createTransport({ csrfToken }: Session, onSignedOut: () => void): Transport {
  const guard: Interceptor = (next) => async (request) => {
    request.header.set("x-csrf-token", csrfToken);
    try {
      return await next(request);
    } catch (error) {
      if (isSignedOut(ConnectError.from(error))) onSignedOut();
      throw error;
    }
  };
  return createConnectTransport({ baseUrl: window.location.origin, useBinaryFormat: true, interceptors: [guard] });
}

/** Tests whether a call failed for its session: one that has ended counts as a wrong key, of which an address may send some. */
function isSignedOut(error: ConnectError): boolean {
  return error.code === Code.Unauthenticated || requestErrorFrom(error).reason === "TOO_MANY_WRONG_KEYS";
}

const RETRIES = 2;
const RETRIED: ReadonlySet<Code> = new Set([Code.Unavailable, Code.Unknown]);

/** Creates the cache of answers. Retries only faults that a later attempt may cure. */
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // The service may be on this machine or a local network while the browser counts as offline.
        networkMode: "always",
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        retry: (count, error) => count < RETRIES && RETRIED.has(ConnectError.from(error).code),
      },
    },
  });
}
