import { expect } from "chai";
import type { Run } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

describe("agentctl people", () => {
  let served: Served;
  before(async () => {
    served = await startServed();
  });
  after(() => served?.stop());

  const ok = async (...argv: readonly string[]): Promise<Run> => {
    const run = await served.agentctl(...argv);
    expect(run.code, run.stderr).to.equal(0);
    return run;
  };

  it("adds, invites, changes and deactivates a person, and lists what they answered.", async () => {
    const added = (await ok("people", "add", "Ann Lee", "--role", "operator", "--json")).json();
    const { person_id: id } = added.person as unknown as { person_id: string };
    expect((await ok("people", "list")).stdout).to.match(new RegExp(`${id} +Ann Lee +operator`));
    const { url } = (await ok("people", "invite", id, "--json")).json() as unknown as { url: string };
    const opened = await fetch(`${served.http}/dashboard/invite`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ secret: url.split("#")[1] }),
    });
    const { key_id, secret } = (await opened.json()) as { key_id: string; secret: string };
    const agentId = await served.agent();
    await served.rest("PATCH /v1/admin/workspaces/default", { default_decision: "escalate" });
    const [own, other] = [
      await served.intercept(agentId, { action_type: "a" }),
      await served.intercept(agentId, { action_type: "b" }),
    ];
    const answer = (escalationId: string, key?: string) =>
      served.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, { resolution: "approved" }, key);
    await answer(own.escalation_id, secret);
    await answer(other.escalation_id);
    const found = (await ok("escalations", "list", "--answered-by", id)).stdout;
    expect(found).to.include(own.escalation_id).and.to.include("Ann Lee").and.not.to.include(other.escalation_id);
    const keys = (await ok("keys", "list", "--owner", id)).stdout;
    expect(keys).to.match(new RegExp(`LAST USED[^]*${key_id} +personal key +operator +\\S+ +Ann Lee`));
    await ok("people", "update", id, "--role", "auditor");
    expect((await ok("people", "show", id)).stdout).to.include("auditor");
    await ok("people", "deactivate", id, "--yes");
    expect((await served.agentctl("people", "invite", id)).stderr).to.include("is deactivated");
    await ok("people", "reactivate", id);
  });
});
