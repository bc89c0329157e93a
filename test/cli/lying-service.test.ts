import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { agentctl, type Run } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Another value of the same type. */
function otherThan(value: Json): Json {
  if (typeof value !== "string") return typeof value === "number" ? value + 1 : "x";
  if (/^\d+$/.test(value)) return String(Number(value) + 1);
  return value.replace(/[A-Za-z]/, (letter) => (letter === "b" ? "c" : "b"));
}

/** Returns the JSON with the member at a path of names and indexes changed. */
function changed(json: Json, [name = "", ...rest]: readonly string[]): Json {
  if (name === "") return otherThan(json);
  if (Array.isArray(json)) return json.with(Number(name), changed(json[Number(name)] ?? null, rest));
  const object = json as { [name: string]: Json };
  return { ...object, [name]: changed(object[name] ?? null, rest) };
}

/** Members of answers that a service lies in: the beginning of the call's path, and the path of the member. */
const LIES: readonly (readonly [command: "prove" | "verify", call: string, member: string, fault: string])[] = [
  ["prove", "/v1/enforce/decisions/", "decision.decision", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "decision.decision_path", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "decision.agent_name", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.action.action_type", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.action.arguments.amount", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.trust.before", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.authorisation.collective_limits.0.scope", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.authorisation.collective_limits.0.resets_at", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.reasons.0.resets_at", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.reasons.0.remaining", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.observed.0.would_decide", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.observed.0.reasons.0.resets_at", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.observed.0.reasons.1.decision", "contradiction"],
  ["prove", "/v1/enforce/decisions/", "receipt.leaf_hash", "leaf_hash"],
  ["prove", "/v1/enforce/vault/checkpoint", "tree_size", "contradiction"],
  ["prove", "/v1/enforce/vault/checkpoint", "verifier_key", "contradiction"],
  ["prove", "/v1/enforce/vault/proofs/inclusion", "leaf_index", "proof"],
  ["verify", "/v1/enforce/vault/checkpoint", "origin", "contradiction"],
  ["verify", "/v1/enforce/vault/checkpoint", "root_hash", "contradiction"],
  ["verify", "/v1/enforce/vault/proofs/inclusion", "leaf_hash", "leaf_hash"],
  ["verify", "/v1/enforce/vault/proofs/inclusion", "root_hash", "proof"],
  ["verify", "/v1/enforce/vault/proofs/inclusion", "audit_path.0", "proof"],
  ["verify", "/v1/enforce/vault/proofs/inclusion", "checkpoint.tree_size", "contradiction"],
  ["verify", "/v1/enforce/vault/proofs/consistency", "from", "proof"],
  ["verify", "/v1/enforce/vault/proofs/consistency", "from_root", "rewritten"],
  ["verify", "/v1/enforce/vault/proofs/consistency", "to_root", "proof"],
  ["verify", "/v1/enforce/vault/proofs/consistency", "path.0", "proof"],
];

describe("agentctl, with a service whose answers are changed on the way", () => {
  let served: Served;
  let proxy: Server;
  let url: string;
  let decisionId: string;
  let kept: string;
  /** The lie of the running test. */
  let lie: readonly [call: string, member: string] | undefined;

  before(async () => {
    served = await startServed();
    const agentId = await served.agent();
    const conditions = { mode: "velocity", max_count: 3, window_seconds: 600, match_action_types: ["*"] };
    const rules = [{ type: "sequence", decision: "block", conditions }];
    await served.rest("POST /v1/enforce/mandates", { name: "cap", rules });
    const watching = [{ type: "action", decision: "escalate", conditions: { match_action_types: ["read"] } }, ...rules];
    await served.rest("POST /v1/enforce/mandates", { name: "trial", mode: "observe", rules: watching });
    const action = { metadata: { arguments: { amount: 5 } } };
    for (let count = 0; count < 5; count++) decisionId = (await served.intercept(agentId, action)).decision_id;
    kept = served.folder.path("kept");
    await served.agentctl("vault", "verify", "--keep-checkpoint", kept);
    await served.intercept(agentId, action);
    proxy = createServer(async (request, response) => {
      const path = request.url ?? "";
      const reply = await fetch(served.http + path, { headers: { "x-api-key": served.adminKey } });
      const json = (await reply.json()) as Json;
      const isLie = lie !== undefined && path.startsWith(lie[0]);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(isLie ? changed(json, (lie?.[1] ?? "").split(".")) : json));
    });
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  });
  after(async () => {
    proxy?.close();
    await served?.stop();
  });

  function run(command: "prove" | "verify"): Promise<Run> {
    const out = served.folder.path("proof");
    const more = command === "prove" ? [decisionId, "--out", out] : ["--checkpoint", kept];
    return agentctl(["vault", command, ...more, "--url", url, "--json"], { AGENTCTL_KEY: "k" });
  }

  it("verifies and proves what nobody changed.", async () => {
    lie = undefined;
    for (const command of ["prove", "verify"] as const) {
      const { code, stdout, stderr } = await run(command);
      expect(code, stdout + stderr).to.equal(0);
    }
  });

  for (const [command, call, member, fault] of LIES) {
    it(`refuses to ${command} when \`${member}\` of ${call} is another one.`, async () => {
      lie = [call, member];
      const { code, stdout, json } = await run(command);
      expect(code, stdout).to.equal(1);
      expect(json(), stdout).to.include({ verified: false, fault });
    });
  }
});
