import { expect } from "chai";
import type { InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { openWorkspace, type Replica, type TestWorkspace } from "../support/harness.ts";

describe("uses", () => {
  let test: TestWorkspace;
  let [principal, actor] = ["", ""];
  beforeEach(async () => {
    test = await openWorkspace();
    [principal, actor] = [await test.agent("principal"), await test.agent("actor")];
  });
  afterEach(() => test.close());

  async function grant(maxUses?: bigint): Promise<string> {
    const init = { grantorAgentId: principal, granteeAgentId: actor, actionTypes: ["*"] };
    const { grant } = await test.authority.createGrant(maxUses === undefined ? init : { ...init, maxUses });
    return grant?.grantId ?? "";
  }
  const use = ({ enforcement }: Replica, grantId: string): Promise<InterceptResponse> =>
    enforcement.intercept({ agentId: actor, actionType: "a", grantId });
  const usesOn = async ({ authority }: Replica, grantId: string): Promise<bigint | undefined> =>
    (await authority.getGrant({ grantId })).grant?.uses;

  it("are exact when two replicas use them up at once.", async () => {
    const other = await test.replica();
    const grantId = await grant(10n);
    const tries = Array.from({ length: 50 }, (_, index) => use(index % 2 === 0 ? test : other, grantId));
    const replies = await Promise.all(tries);
    expect(replies.filter(({ decision }) => decision === Decision.ALLOW)).to.have.length(10);
    for (const { decision, decisionPath } of replies)
      if (decision !== Decision.ALLOW) expect(decisionPath).to.equal(DecisionPath.DELEGATION);
    expect([await usesOn(test, grantId), await usesOn(other, grantId)]).to.deep.equal([10n, 10n]);
  });

  it("survive a cold start from the log alone.", async () => {
    const grantId = await grant();
    for (let count = 0; count < 4; count++) await use(test, grantId);
    expect(await usesOn(await test.replica(), grantId)).to.equal(4n);
  });

  it("survive a cold start from a snapshot and what came after it, and further snapshots.", async () => {
    const grantId = await grant();
    for (let count = 0; count < 3; count++) await use(test, grantId);
    await test.log.saveTrust();
    for (let count = 0; count < 2; count++) await use(test, grantId);
    const cold = await test.replica();
    expect(await usesOn(cold, grantId)).to.equal(5n);
    await use(cold, grantId);
    await cold.log.saveTrust();
    await test.log.saveTrust();
    const [warm, colder] = [await usesOn(test, grantId), await usesOn(await test.replica(), grantId)];
    expect([warm, colder]).to.deep.equal([6n, 6n]);
  });

  it("are final in the table when a grant ends, whatever snapshot comes later.", async () => {
    const other = await test.replica();
    const grantId = await grant();
    for (let count = 0; count < 3; count++) await use(other, grantId);
    await test.authority.endGrant({ grantId });
    await other.log.saveTrust();
    await test.log.saveTrust();
    expect(await usesOn(await test.replica(), grantId)).to.equal(3n);
  });

  it("end for every replica at once when a grant ends while it is in use.", async () => {
    const other = await test.replica();
    const grantId = await grant();
    const tries = Array.from({ length: 40 }, (_, index) => use(index % 2 === 0 ? test : other, grantId));
    const [, ...replies] = await Promise.all([test.authority.endGrant({ grantId }), ...tries]);
    const allowed = replies.filter(({ decision }) => decision === Decision.ALLOW);
    expect(await usesOn(test, grantId)).to.equal(BigInt(allowed.length));
    for (const replica of [test, other])
      expect((await use(replica, grantId)).decisionPath).to.equal(DecisionPath.DELEGATION);
  });
});
