import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { Decision, ProposalKind, ProposalStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { actionRule, attempt, callerWith, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

const blocking = (actionType: string) => [actionRule(Decision.BLOCK, actionType)];

describe("proposals", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
    agentId = await test.agent();
  });
  after(async () => {
    assertIntact(await readLog(test.url));
    await test.close();
  });

  const person = (name: string, role = Role.ADMIN) => ({
    ...callerWith(test.adminCaller, role),
    keyId: `oidc:https://idp.test|${name}`,
  });
  const reviews = async (count: number, ...by: string[]): Promise<void> => {
    const { workspaceId, admin } = test;
    const { proposal } = await admin.updateWorkspace({ workspaceId, mandateReviews: count }, person("ann"));
    for (const name of by) await accept(proposal?.proposalId, name);
  };
  const accept = async (proposalId: string | undefined, name: string, role?: Role) =>
    (await test.proposals.acceptProposal({ proposalId: proposalId ?? "" }, person(name, role))).proposal;
  const propose = async (name: string, actionType = name) =>
    (await test.mandates.createMandate({ name, rules: blocking(actionType), note: `for ${name}` }, person("ann")))
      .proposal;
  const decide = async (actionType: string) => (await attempt(test.log, { agentId, actionType })).decision;
  const seqNow = async (): Promise<number> => (await test.log.caughtUp()).seq;

  it("are not made where the workspace reviews nothing.", async () => {
    const { mandate, proposal } = await test.mandates.createMandate({ name: "free", rules: blocking("free.one") });
    expect([mandate?.version, proposal]).to.deep.equal([1, undefined]);
  });

  describe("of a workspace with one review", () => {
    before(() => reviews(1));
    after(() => reviews(0, "ben"));

    it("wait until another accepts, and then are in force with their author and note.", async () => {
      const proposal = await propose("waits");
      expect(proposal).to.include({
        kind: ProposalKind.CREATE_MANDATE,
        subject: "waits",
        status: ProposalStatus.PENDING,
        needed: 1,
        createdBy: person("ann").keyId,
      });
      expect(await decide("waits")).to.equal("allow");
      const seq = await seqNow();
      const accepted = await accept(proposal?.proposalId, "ben");
      expect(accepted).to.include({ status: ProposalStatus.ACCEPTED, endedBy: person("ben").keyId });
      expect(await seqNow()).to.equal(seq + 2);
      expect(await decide("waits")).to.equal("block");
      const [mandate] = (await test.mandates.listMandates({ pageSize: 1 })).mandates;
      expect(mandate).to.include({ name: "waits", createdBy: person("ann").keyId, note: "for waits" });
      expect((await accept(proposal?.proposalId, "ben"))?.status).to.equal(ProposalStatus.ACCEPTED);
      expect(await reasonOf(accept(proposal?.proposalId, "cat"))).to.equal("PROPOSAL_ENDED");
    });

    it("cannot be accepted by their author, nor by a key that counts as the author's.", async () => {
      const { admin, proposals, mandates } = test;
      const key = async (owner: string | undefined, by = test.adminCaller) => {
        const created = await admin.createApiKey({ name: "k", role: Role.ADMIN, ...(owner && { owner }) }, by);
        return { ...test.adminCaller, keyId: created.key?.keyId ?? "" };
      };
      const ann = person("ann");
      const own = await key(ann.keyId);
      const made = await key(undefined, ann);
      const label = await key("Finance");
      const sameLabel = await key(" finance ");
      const proposal = await propose("own");
      const id = proposal?.proposalId ?? "";
      for (const caller of [ann, own, made]) {
        expect(await reasonOf(proposals.acceptProposal({ proposalId: id }, caller))).to.equal("FOUR_EYES");
      }
      const rules = blocking("by.label");
      const byLabel = (await mandates.createMandate({ name: "by label", rules }, label)).proposal?.proposalId ?? "";
      expect(await reasonOf(proposals.acceptProposal({ proposalId: byLabel }, sameLabel))).to.equal("FOUR_EYES");
      const byMade = (await mandates.createMandate({ name: "by made", rules }, made)).proposal?.proposalId ?? "";
      expect(await reasonOf(proposals.acceptProposal({ proposalId: byMade }, ann))).to.equal("FOUR_EYES");
      expect(await decide("own")).to.equal("allow");
      for (const each of [id, byLabel, byMade]) {
        const { proposal: ended } = await proposals.rejectProposal({ proposalId: each, note: "no" }, ann);
        expect(ended).to.include({ status: ProposalStatus.REJECTED, endNote: "no" });
        expect(await reasonOf(accept(each, "ben"))).to.equal("PROPOSAL_ENDED");
      }
    });

    it("are refused for what their change is refused, and seal nothing then or when nothing would change.", async () => {
      const seq = await seqNow();
      const rules = [actionRule(Decision.BLOCK, "")];
      expect(await reasonOf(test.mandates.createMandate({ name: "bad", rules }))).to.not.equal(undefined);
      expect(await reasonOf(test.mandates.createMandate({ name: "waits", rules: blocking("x") }))).to.equal(
        "MANDATE_EXISTS",
      );
      expect(await reasonOf(test.mandates.archiveMandate({ mandateId: "mnd_none" }))).to.equal("MANDATE_NOT_FOUND");
      const [mandate] = (await test.mandates.listMandates({ pageSize: 1 })).mandates;
      const same = { mandateId: mandate?.mandateId ?? "", name: "waits", rules: blocking("waits") };
      expect((await test.mandates.updateMandate(same)).proposal).to.equal(undefined);
      expect(await seqNow()).to.equal(seq);
      const first = await propose("twice");
      expect((await propose("twice"))?.proposalId).to.equal(first?.proposalId);
      await test.proposals.rejectProposal({ proposalId: first?.proposalId ?? "" }, person("ben"));
    });

    it("are stale once what they change has another version, and must be made anew.", async () => {
      const created = await propose("moves", "moves.one");
      await accept(created?.proposalId, "ben");
      const [mandate] = (await test.mandates.listMandates({ pageSize: 1 })).mandates;
      const mandateId = mandate?.mandateId ?? "";
      const update = (actionType: string) =>
        test.mandates.updateMandate({ mandateId, name: "moves", rules: blocking(actionType) }, person("ann"));
      const first = (await update("moves.two")).proposal?.proposalId;
      const second = (await update("moves.three")).proposal?.proposalId;
      await accept(first, "ben");
      expect(await reasonOf(accept(second, "ben"))).to.equal("PROPOSAL_STALE");
      expect([await decide("moves.two"), await decide("moves.three")]).to.deep.equal(["block", "allow"]);
      const { proposals } = await test.proposals.listProposals({ open: true });
      expect(proposals.map(({ proposalId, status }) => [proposalId, status])).to.deep.equal([
        [second, ProposalStatus.STALE],
      ]);
      const { mandates } = await test.proposals.getProposal({ proposalId: first ?? "" });
      expect(
        mandates.map(({ before, after }) =>
          [before, after].map((each) => each?.rules[0]?.conditions?.matchActionTypes),
        ),
      ).to.deep.equal([[["moves.one"], ["moves.two"]]]);
      await test.proposals.rejectProposal({ proposalId: second ?? "" }, person("ann"));
    });

    it("are compiled again when they take effect.", async () => {
      const { tools, mandates } = test;
      const schema = (name: string) => ({ type: "object", properties: { [name]: { type: "number" } } });
      await tools.registerTool({ name: "refund", inputSchema: schema("sum") });
      const rule = {
        tool: "refund",
        decision: Decision.BLOCK,
        conditions: { rules: [{ field: "sum", operator: "exists" }] },
      };
      const { proposal } = await mandates.createMandate({ name: "refunds", rules: [rule] }, person("ann"));
      await tools.registerTool({ name: "refund", inputSchema: schema("total") });
      expect(await reasonOf(accept(proposal?.proposalId, "ben"))).to.equal("MANDATE_INVALID");
      const { proposals } = await test.proposals.listProposals({ open: true });
      expect(proposals.map(({ acceptances }) => acceptances.length)).to.deep.equal([0]);
      await tools.registerTool({ name: "refund", inputSchema: schema("sum") });
      expect((await accept(proposal?.proposalId, "ben"))?.status).to.equal(ProposalStatus.ACCEPTED);
    });

    it("are made of lists, packs, restorations and archivals, too.", async () => {
      const { lists, mandates } = test;
      const ann = person("ann");
      const numbers = Array.from({ length: 1_500 }, (_, index) => `v${index}`);
      const put = await lists.putList({ name: "payees", kind: ListKind.TEXT, values: numbers }, ann);
      expect(await reasonOf(lists.getList({ name: "payees" }))).to.equal("LIST_NOT_FOUND");
      const shown = await test.proposals.getProposal({ proposalId: put.proposal?.proposalId ?? "" });
      expect([shown.list?.count, shown.list?.values.length]).to.deep.equal([1_500, 1_000]);
      await accept(put.proposal?.proposalId, "ben", Role.OPERATOR);
      expect((await lists.getList({ name: "payees" })).list?.size).to.equal(1_500);
      const added = await lists.addListValues({ name: "payees", values: ["one more"] }, ann);
      const removed = await lists.removeListValues({ name: "payees", values: ["v1"] }, ann);
      await accept(added.proposal?.proposalId, "ben");
      expect(await reasonOf(accept(removed.proposal?.proposalId, "ben"))).to.equal("PROPOSAL_STALE");
      const deleted = await lists.deleteList({ name: "payees" }, ann);
      expect((await lists.getList({ name: "payees" })).list?.size).to.equal(1_501);
      await accept(deleted.proposal?.proposalId, "ben");
      expect(await reasonOf(lists.getList({ name: "payees" }))).to.equal("LIST_NOT_FOUND");

      const pack = (...names: string[]) =>
        mandates.applyPack(
          { name: "team", mandates: names.map((name) => ({ name, rules: blocking(name) })), note: "team rules" },
          ann,
        );
      const applied = await pack("team.one", "team.two");
      expect(applied.pack).to.equal(undefined);
      await accept(applied.proposal?.proposalId, "ben");
      const smaller = await pack("team.one");
      const detail = await test.proposals.getProposal({ proposalId: smaller.proposal?.proposalId ?? "" });
      expect(detail.mandates.map(({ before, after }) => [before?.name, after?.name])).to.deep.equal([
        ["team.two", undefined],
      ]);
      await accept(smaller.proposal?.proposalId, "ben");
      const [left] = (await mandates.getPack({ name: "team" })).mandates;
      const mandateId = left?.mandateId ?? "";
      const { versions } = await mandates.getMandate({ mandateId });
      expect(versions.map(({ createdBy, note }) => [createdBy, note])).to.deep.equal([[ann.keyId, "team rules"]]);
      const updated = await mandates.updateMandate({ mandateId, name: "team.one", rules: blocking("team.new") }, ann);
      await accept(updated.proposal?.proposalId, "ben");
      const restored = await mandates.restoreMandate({ mandateId, version: 1 }, ann);
      await accept(restored.proposal?.proposalId, "ben");
      expect((await mandates.getMandate({ mandateId })).mandate).to.include({ version: 3, restoredFrom: 1 });
      const archived = await mandates.archiveMandate({ mandateId }, ann);
      expect(await decide("team.one")).to.equal("block");
      await accept(archived.proposal?.proposalId, "ben");
      expect(await decide("team.one")).to.equal("allow");
    });

    it("keep the setting from being lowered alone, and settings from operators.", async () => {
      const { admin, workspaceId } = test;
      const { workspace, proposal } = await admin.updateWorkspace({ workspaceId, mandateReviews: 0 }, person("ann"));
      expect(workspace).to.equal(undefined);
      expect(proposal?.kind).to.equal(ProposalKind.UPDATE_WORKSPACE);
      expect(await reasonOf(accept(proposal?.proposalId, "ann"))).to.equal("FOUR_EYES");
      expect(await reasonOf(accept(proposal?.proposalId, "ben", Role.OPERATOR))).to.equal("ROLE_NOT_ALLOWED");
      expect((await admin.getWorkspace({ workspaceId })).workspace?.mandateReviews).to.equal(1);
      await admin.updateWorkspace({ workspaceId, halted: false, keyTtlDays: 0 });
      await test.proposals.rejectProposal({ proposalId: proposal?.proposalId ?? "" }, person("ben"));
    });

    it("are bounded: no more than 100 wait.", async () => {
      const waiting = (await test.proposals.listProposals({ open: true })).proposals.length;
      for (let count = waiting; count < 100; count++) await propose(`many ${count}`);
      expect(await reasonOf(propose("one more"))).to.equal("PROPOSALS_FULL");
      await test.database.pool.query("update proposal set expires_at_ms = 1 where status = 1");
      expect((await propose("one more"))?.status).to.equal(ProposalStatus.PENDING);
    });

    it("expire.", async () => {
      const proposal = await propose("expires");
      const id = proposal?.proposalId ?? "";
      await test.database.pool.query("update proposal set expires_at_ms = 1 where proposal_id = $1", [id]);
      expect((await test.proposals.getProposal({ proposalId: id })).proposal?.status).to.equal(ProposalStatus.EXPIRED);
      expect(await reasonOf(accept(id, "ben"))).to.equal("PROPOSAL_ENDED");
    });
  });

  it("take effect once when two people accept at once on two processes, and count a person once.", async () => {
    await reviews(2);
    try {
      const proposal = await propose("races");
      const id = proposal?.proposalId ?? "";
      expect((await accept(id, "ben"))?.status).to.equal(ProposalStatus.PENDING);
      expect((await accept(id, "ben"))?.acceptances).to.have.length(1);
      const { key } = await test.admin.createApiKey({ name: "k", role: Role.ADMIN, owner: person("ben").keyId });
      const bensKey = { ...test.adminCaller, keyId: key?.keyId ?? "" };
      expect(await reasonOf(test.proposals.acceptProposal({ proposalId: id }, bensKey))).to.equal("FOUR_EYES");
      const [first, second] = test.replicas;
      const answers = await Promise.allSettled([
        first?.proposals.acceptProposal({ proposalId: id }, person("cat")),
        second?.proposals.acceptProposal({ proposalId: id }, person("dan")),
      ]);
      expect(answers.filter(({ status }) => status === "fulfilled")).to.have.length(1);
      const bodies = (await readLog(test.url)).entries.map(({ body }) => JSON.parse(body));
      const published = bodies.filter(
        ({ type, mandate }) => type === "mandate_published" && mandate.definition.name === "races",
      );
      expect(published.map(({ mandate }) => mandate.author)).to.deep.equal([person("ann").keyId]);
      const accepted = bodies.filter(({ type, proposal_id }) => type === "proposal_accepted" && proposal_id === id);
      expect(accepted.map(({ given, needed }) => [given, needed])).to.deep.equal([
        [1, 2],
        [2, 2],
      ]);
    } finally {
      await reviews(0, "ben", "cat");
    }
  });

  it("leave the same state on a cold start and from the log alone.", async () => {
    const { pool } = test.database;
    const shown = async (state: Parameters<typeof comparable>[1]) =>
      (await comparable(pool, state, Date.now())).mandates;
    expect(await shown(await coldState(pool))).to.deep.equal(await shown(await foldedState(pool)));
  });

  it("say to each reader whether they may accept, and list what waits for them.", async () => {
    await reviews(2);
    try {
      const proposal = await propose("for whom");
      const proposalId = proposal?.proposalId ?? "";
      const { key } = await test.admin.createApiKey({ name: "k", role: Role.ADMIN, owner: person("ann").keyId });
      const annsKey = { ...test.adminCaller, keyId: key?.keyId ?? "" };
      const other = callerWith(test.adminCaller, Role.AUDITOR);
      const told = async (caller: typeof annsKey) => {
        const read = await test.proposals.getProposal({ proposalId }, caller);
        const { proposals } = await test.proposals.listProposals({ mine: true }, caller);
        return [read.cannotAccept, proposals.some((each) => each.proposalId === proposalId)];
      };
      const made = `proposal \`${proposalId}\``;
      const others = "others have to accept it";
      expect(await told(person("ann"))).to.deep.equal([`you made ${made}; ${others}`, false]);
      expect(await told(annsKey)).to.deep.equal([
        `you and the author of ${made} count as one: owner \`${person("ann").keyId}\`; ${others}`,
        false,
      ]);
      expect(await told(person("ben", Role.OPERATOR))).to.deep.equal([undefined, true]);
      expect((await told(other))[1]).to.equal(false);
      expect((await told(other))[0]).to.include("roles `admin` and `operator`");
      await accept(proposalId, "ben");
      expect(await told(person("ben"))).to.deep.equal([`you accepted proposal \`${proposalId}\``, false]);
      expect(await told(person("cat"))).to.deep.equal([undefined, true]);
      const { admin, workspaceId } = test;
      const setting = await admin.updateWorkspace({ workspaceId, mandateReviews: 3 }, person("ann"));
      const mine = async (role: Role) =>
        (await test.proposals.listProposals({ mine: true }, person("cat", role))).proposals.map(
          (each) => each.proposalId,
        );
      expect(await mine(Role.OPERATOR)).to.deep.equal([proposalId]);
      expect(await mine(Role.ADMIN)).to.deep.equal([setting.proposal?.proposalId, proposalId]);
      await test.proposals.rejectProposal({ proposalId: setting.proposal?.proposalId ?? "" }, person("cat"));
      await accept(proposalId, "cat");
      expect((await told(person("dan")))[0]).to.include("is accepted and takes no answer");
    } finally {
      await reviews(0, "ben", "cat");
    }
  });

  it("are read by auditors, and answered by nobody of another role or workspace.", async () => {
    await reviews(1);
    const proposal = await propose("roles");
    const request = { proposalId: proposal?.proposalId ?? "" };
    const as = (role: Role) => callerWith(test.adminCaller, role);
    expect((await test.proposals.getProposal(request, as(Role.AUDITOR))).proposal?.subject).to.equal("roles");
    expect(await reasonOf(test.proposals.acceptProposal(request, as(Role.AUDITOR)))).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(test.proposals.rejectProposal(request, as(Role.AGENT)))).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(accept("prp_none", "ben"))).to.equal("PROPOSAL_NOT_FOUND");
    await accept(proposal?.proposalId, "ben");
    await reviews(0, "ben");
  });
});
