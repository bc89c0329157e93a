import { expect } from "chai";
import { withClient } from "../support/database.ts";
import { ownedBy } from "../support/owned-key.ts";
import type { RestCall } from "../support/service.ts";
import type { Run } from "./harness.ts";
import { type Served, startServed } from "./served.ts";

const mandate = (name: string): string =>
  `name: ${name}\nrules:\n  - type: action\n    decision: block\n    conditions: {match_action_types: [${name}]}\n`;

describe("agentctl mandate apply, where others review changes", () => {
  let served: Served;
  let ben: RestCall;
  before(async () => {
    served = await startServed();
    ben = await ownedBy("Ben", served);
    await served.rest("PATCH /v1/admin/workspaces/default", { mandate_reviews: 1 });
  });
  after(() => served.stop());

  const apply = async (name: string, ...more: readonly string[]): Promise<Run> =>
    served.agentctl("mandate", "apply", await served.folder.file(`${name}.yaml`, mandate(name)), ...more, "--yes");
  /** Waits until a proposal of a pack waits; gives its id. */
  async function proposalOf(pack: string): Promise<string> {
    for (;;) {
      const { proposals } = (await served.rest("GET /v1/enforce/proposals?open=true")) as unknown as {
        readonly proposals: readonly { readonly proposal_id: string; readonly subject: string }[];
      };
      const found = proposals.find(({ subject }) => subject === pack);
      if (found !== undefined) return found.proposal_id;
    }
  }
  const inForce = async (): Promise<readonly string[]> =>
    ((await served.rest("GET /v1/enforce/mandates")) as unknown as { mandates: { name: string }[] }).mandates.map(
      ({ name }) => name,
    );

  it("prints the proposal, and ends at once with 0 unless it is to wait.", async () => {
    const { code, stdout } = await apply("unwaited", "--pack", "unwaited");
    expect(code).to.equal(0);
    expect(stdout).to.match(
      /proposed as (prp_\w+): another person must accept it by .*Z\naccept it: agentctl proposals accept \1\n$/,
    );
    expect(await inForce()).to.not.include("unwaited");
  });

  it("waits with --wait, and ends with 0 once it is accepted and in force.", async () => {
    const running = apply("accepted", "--pack", "accepted", "--wait");
    const id = await proposalOf("accepted");
    await ben(`POST /v1/enforce/proposals/${id}:accept`);
    const { code, stdout } = await running;
    expect(stdout)
      .to.include(`proposed as ${id}`)
      .and.match(/accepted: pack `accepted` is in force\n$/);
    expect(code).to.equal(0);
    expect(await inForce()).to.include("accepted");
  });

  it("ends with 1 and the note once it is rejected, also as JSON.", async () => {
    const running = apply("rejected", "--pack", "rejected", "--wait");
    await ben(`POST /v1/enforce/proposals/${await proposalOf("rejected")}:reject`, { note: "too \u001b[31mstrict" });
    const { code, stdout } = await running;
    expect(code).to.equal(1);
    expect(stdout)
      .to.match(/\nrejected: too .*strict\n$/)
      .and.not.include("\u001b");
    const asJson = apply("rejected", "--pack", "rejected", "--wait", "--json");
    await ben(`POST /v1/enforce/proposals/${await proposalOf("rejected")}:reject`, { note: "no" });
    const { proposal } = (await asJson).json() as { readonly proposal: Readonly<Record<string, unknown>> };
    expect([(await asJson).code, proposal.status, proposal.end_note]).to.deep.equal([1, "rejected", "no"]);
    expect(await inForce()).to.not.include("rejected");
  });

  it("ends with 1 when its time is up, and when something else was accepted first.", async () => {
    const expiring = apply("expired", "--pack", "expired", "--wait");
    const id = await proposalOf("expired");
    await withClient(served.database.url, (client) =>
      client.query("update proposal set expires_at_ms = 1 where proposal_id = $1", [id]),
    );
    const expired = await expiring;
    expect([expired.code, expired.stdout.split("\n").at(-2)]).to.deep.equal([
      1,
      "expired: too few accepted it in time",
    ]);
    const overtaken = apply("first", "--pack", "contested", "--wait");
    const first = await proposalOf("contested");
    const second = await apply("second", "--pack", "contested");
    await ben(`POST /v1/enforce/proposals/${/prp_\w+/.exec(second.stdout)?.[0]}:accept`);
    const stale = await overtaken;
    expect(stale.stdout).to.include(first);
    expect([stale.code, stale.stdout.split("\n").at(-2)]).to.deep.equal([
      1,
      "stale: the pack has changed since; apply the files again",
    ]);
  });
});
