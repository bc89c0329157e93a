/* Lines on calls that doors beside the services refuse: hooks, the MCP gateway, the redaction proxy, the dashboard's sign-in. */
import { expect } from "chai";
import { INITIALIZE } from "../gateway/raw-client.ts";
import { until } from "../support/harness.ts";
import { startService, type TestService } from "../support/service.ts";

const JSON_TYPE = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const EVENT = { hook_event_name: "PreToolUse", tool_name: "Bash", tool_input: { command: "cat grace-hopper" } };
const CHAT = { model: "m", messages: [{ role: "user", content: "grace-hopper" }] };

interface Key {
  readonly keyId: string;
  readonly secret: string;
}

/** A door with the method that its line names. */
const DOORS = [
  { method: "/v1/hooks/claude-code", path: "/v1/hooks/claude-code", body: EVENT, headers: {} },
  { method: "/v1/hooks/codex", path: "/v1/hooks/codex", body: EVENT, headers: { "x-hook-nonce": "0a".repeat(32) } },
  { method: "/mcp", path: "/mcp/grace-hopper", body: INITIALIZE, headers: {} },
  { method: "/api/redact", path: "/api/redact/default/openai/v1/chat/completions", body: CHAT, headers: {} },
] as const;

describe("a call that is refused at a door beside the services", () => {
  let service: TestService;
  let auditor: Key;
  before(async () => {
    service = await startService({ env: { ACP_RATE_LIMIT_KEY: "0.1:20" } });
    auditor = await keyOf("grace-hopper", "auditor");
  });
  after(() => service?.stop());

  async function keyOf(name: string, role: string): Promise<Key> {
    const made: unknown = await service.rest("POST /v1/admin/keys", { name, role });
    const { key, secret } = made as { readonly key: { readonly key_id: string }; readonly secret: string };
    return { keyId: key.key_id, secret };
  }

  const post = (path: string, headers: Readonly<Record<string, string>>, body: unknown): Promise<Response> =>
    fetch(service.http + path, { method: "POST", headers: { ...JSON_TYPE, ...headers }, body: JSON.stringify(body) });
  /** The lines of a request, once there is one. */
  async function linesOf(requestId: string): Promise<Record<string, unknown>[]> {
    await until(() => service.output().includes(`"requestId":"${requestId}"`));
    return service
      .output()
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => line.requestId === requestId);
  }

  for (const { method, path, body, headers } of DOORS) {
    it(`is one line at ${path}, with key, method, address and request id, for a role that may not.`, async () => {
      const requestId = `role ${path}`.replace(/[^a-z0-9]/g, "-").replace("grace-hopper", "x");
      await post(path, { ...headers, "x-api-key": auditor.secret, "x-request-id": requestId }, body);
      const lines = await linesOf(requestId);
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include({
        level: "warn",
        msg: "refused call",
        keyId: auditor.keyId,
        workspaceId: "default",
        method,
        code: "PERMISSION_DENIED",
        address: "127.0.0.1",
      });
    });

    it(`is one line at ${path} for a call without a key.`, async () => {
      const requestId = `none ${path}`.replace(/[^a-z0-9]/g, "-").replace("grace-hopper", "x");
      await post(path, { ...headers, "x-request-id": requestId }, body);
      expect((await linesOf(requestId)).map(({ msg, code }) => [msg, code])).to.deep.equal([
        ["refused call", "UNAUTHENTICATED"],
      ]);
    });
  }

  it("is one line at the sign-in for the key of an agent, and says nothing of what came with the call.", async () => {
    const { secret } = await keyOf("runtime", "agent");
    await post("/dashboard/sign-in", { "x-request-id": "sign-in" }, { key: secret });
    const lines = await linesOf("sign-in");
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({
      method: "/dashboard",
      code: "PERMISSION_DENIED",
      address: "127.0.0.1",
    });
    expect(service.output())
      .not.to.match(/grace|hopper/i)
      .and.not.to.contain(secret);
  });

  it("is the line of the wrong key alone when the key is wrong.", async () => {
    for (const { path, body, headers } of DOORS) {
      await post(path, { ...headers, "x-api-key": "wrong", "x-request-id": `wrong${path.length}` }, body);
      expect((await linesOf(`wrong${path.length}`)).map(({ msg }) => msg)).to.deep.equal(["wrong key"]);
    }
  });

  it("is one line when the rate of its key is above the limit.", async () => {
    const { secret, keyId } = await keyOf("fast", "agent");
    for (let count = 0; count < 21; count++) {
      await post("/v1/hooks/claude-code", { "x-api-key": secret, "x-agent-id": "a", "x-request-id": "fast" }, EVENT);
    }
    const [line] = await linesOf("fast");
    expect(line).to.include({ msg: "refused call", code: "RESOURCE_EXHAUSTED" });
    expect(line?.keyId).to.equal(keyId);
  });
});
