import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { DryRunService } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { withClient } from "../support/database.ts";
import { actionRule } from "../support/harness.ts";
import { startService, type TestService } from "../support/service.ts";
import { openWires, type Wires } from "../support/wires.ts";

const EVE = "body = replace(e.body, 'pay bob', 'pay eve')";
/** Changes of a row `e`, by a part of the fault's text. */
const CHANGES: readonly (readonly [what: string, set: string, fault: string])[] = [
  ["another action", EVE, "does not hash to its leaf"],
  ["another hash", "leaf_hash = sha256('x')", "does not hash to its leaf"],
  ["no body", "body = ''", "does not hash to its leaf"],
  ["no JSON, with its hash", "body = '{'", "seals no decision"],
  ["other JSON, with its hash", "body = 'null'", "seals no decision"],
  ["a part of a decision, with its hash", `body = '{"type":"decision"}'`, "seals no decision"],
  ["a later version, with its hash", `body = replace(e.body, '"v":2', '"v":3')`, "version `3`"],
  ["the text of another entry", "body = other.body", "another `seq`"],
  [
    "another workspace",
    `body = replace(e.body, '"workspace_id":"default"', '"workspace_id":"other"')`,
    "`workspace_id`",
  ],
  ["another id", `body = replace(e.body, '"decision_id":"dec_', '"decision_id":"dec_x')`, "`entry_id`"],
  ["another time in the row", "at_ms = e.at_ms + 1", "`at_ms`"],
  ["another decision in the row", "decision = 3 - e.decision", "`decision`"],
  ["another agent in the row", "agent_id = 'agt_x'", "`agent_id`"],
  ["the kind of a change", "kind = 1", "`kind`"],
];

describe("a decision whose row was changed in the database", () => {
  let service: TestService;
  let wires: Wires;
  let agentId: string;

  before(async () => {
    service = await startService({ rules: [actionRule(Decision.ESCALATE, "ask")] });
    wires = openWires(service);
    agentId = await service.agent();
  });
  after(async () => {
    wires.close();
    await service.stop();
  });

  const act = (more: object = {}) =>
    service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "pay",
      action_content: "pay bob",
      ...more,
    }) as Promise<Record<string, unknown>>;
  /** Changes the row of a decision as the owner of the tables. Gives its index. */
  const change = (
    decisionId: string,
    set: string,
    rehash = set.startsWith("body =") && set !== EVE && set !== "body = ''",
  ) =>
    withClient(service.database.ownerUrl, async (client) => {
      await client.query("alter table ledger_entry disable trigger all");
      const { rows } = await client.query<{ seq: string }>(
        `update ledger_entry e set ${set} from ledger_entry other
         where e.entry_id = $1 and other.seq = e.seq - 1 returning e.seq`,
        [decisionId],
      );
      if (rehash) {
        const hashed = "sha256('\\x00'::bytea || convert_to(body, 'UTF8'))";
        await client.query(`update ledger_entry set leaf_hash = ${hashed} where entry_id = $1`, [decisionId]);
      }
      return Number(rows[0]?.seq);
    });

  for (const [what, set, fault] of CHANGES) {
    it(`is refused over every wire, with its place: ${what}.`, async () => {
      await act();
      const { decision_id } = (await act()) as { decision_id: string };
      const index = await change(decision_id, set);
      for (const wire of wires.all) {
        const answer = await wire.unary(
          EnforcementService.method.getDecision,
          { decision_id },
          { key: service.adminKey },
        );
        expect([answer.code, answer.reason], `${wire.name} ${answer.message}`).to.deep.equal([
          "DATA_LOSS",
          "ENTRY_DAMAGED",
        ]);
        expect(answer.message).to.contain(`entry ${index} of the log of \`default\``).and.contain(fault);
        expect(answer.metadata).to.include({ workspace_id: "default", index: String(index), decision_id });
        if (wire.name === "rest") expect(answer.status).to.equal(500);
      }
    });
  }

  it("explains nothing and answers no repeat; the others in its batch are answered.", async () => {
    const requests = [randomUUID(), randomUUID()].map((request_id) => ({ request_id }));
    const decisions = [];
    for (const request of requests) decisions.push(await act(request));
    const [damaged, whole] = decisions.map(({ decision_id }) => decision_id as string);
    await change(damaged as string, EVE);
    const [rest] = wires.all;
    const why = { why: { decision_id: damaged as string } };
    const answer = await rest?.unary(DryRunService.method.ask, why, { key: service.adminKey });
    expect(answer?.reason).to.equal("ENTRY_DAMAGED");
    const again = await Promise.allSettled(requests.map((request) => act(request)));
    expect(again.map(({ status }) => status)).to.deep.equal(["rejected", "fulfilled"]);
    expect(String((again[0] as PromiseRejectedResult).reason)).to.contain("ENTRY_DAMAGED");
    expect((again[1] as PromiseFulfilledResult<object>).value).to.include({ decision_id: whole, replayed: true });
  });

  it("is not shown as an escalation, nor approved, edited or waited for.", async () => {
    const asked = await act({ action_type: "ask" });
    const { decision_id = "", escalation_id = "" } = asked as Record<string, string>;
    const index = await change(decision_id, EVE);
    const path = `/v1/enforce/escalations/${escalation_id}`;
    for (const [request, body] of [
      [`GET ${path}`],
      [`GET ${path}/status`],
      [`POST ${path}/resolve`, { resolution: "approved" }],
      [`POST ${path}/edit`, { arguments: { amount: 1 } }],
    ] as const) {
      const refusal = await service.rest(request, body).then(String, String);
      expect(refusal, request).to.contain("ENTRY_DAMAGED").and.contain(`entry ${index} of the log`);
    }
    for (const wire of wires.all) {
      const wait = wire.stream(EscalationService.method.waitEscalation, { escalation_id }, { key: service.adminKey });
      const refusal = await wait[Symbol.asyncIterator]()
        .next()
        .catch((answer: unknown) => answer);
      expect(refusal, wire.name).to.include({ code: "DATA_LOSS", reason: "ENTRY_DAMAGED" });
    }
  });

  it("is reported in the log of the service.", () => {
    expect(service.output()).to.contain('"reason":"ENTRY_DAMAGED"').and.contain("does not hash to its leaf");
  });
});
