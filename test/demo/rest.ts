/** Calls a control plane as any HTTP client would. Rejects with what the service says is wrong. */
export type RestCall = (method: "GET" | "POST", path: string, body?: unknown) => Promise<Record<string, unknown>>;

/** Creates the calls for one key. */
export function createRestCall(baseUrl: string, apiKey: string): RestCall {
  return async (method, path, body) => {
    const headers = { "x-api-key": apiKey, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(`${baseUrl}${path}`, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
}
