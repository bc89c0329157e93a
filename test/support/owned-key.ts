import type { RestCall, TestService } from "./service.ts";

/** Makes an operator's key of its own owner; gives the calls that are made with it. */
export async function ownedBy(owner: string, { http, rest }: Pick<TestService, "http" | "rest">): Promise<RestCall> {
  const { secret } = await rest("POST /v1/admin/keys", { name: owner, role: "operator", owner });
  return async (request, body = {}) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": String(secret), "content-type": "application/json" };
    const response = await fetch(http + path, { method, headers, body: JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, never>;
  };
}
