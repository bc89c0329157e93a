import type { Transport } from "@connectrpc/connect";

/** The same transport with a key on every call. */
export function withApiKey(transport: Transport, apiKey: string): Transport {
  const keyed = (header: HeadersInit | undefined): Headers => {
    const headers = new Headers(header);
    headers.set("x-api-key", apiKey);
    return headers;
  };
  return {
    unary: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.unary(method, signal, timeoutMs, keyed(header), input, contextValues),
    stream: (method, signal, timeoutMs, header, input, contextValues) =>
      transport.stream(method, signal, timeoutMs, keyed(header), input, contextValues),
  };
}
