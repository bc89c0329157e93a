import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  ApplyPackRequestSchema,
  type ApplyPackResponse,
  type MandateDefinitionSchema,
  MandateStatus,
  type RuleSchema,
  RuleType,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { WorkspaceState } from "../../src/state/workspace.ts";
import { digestOf } from "../../src/tree/canonical.ts";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import {
  actionRule,
  attempt,
  callerWith,
  failureOf,
  openWorkspace,
  reasonOf,
  settled,
  type TestWorkspace,
} from "../support/harness.ts";

type Definition = MessageInitShape<typeof MandateDefinitionSchema>;
type RuleInit = MessageInitShape<typeof RuleSchema>;

/** A mandate that blocks one action type. */
const blocking = (name: string, actionType = name) => ({
  name,
  rules: [actionRule(Decision.BLOCK, actionType)],
});
const names = (list: readonly { readonly name: string }[]): string[] => list.map(({ name }) => name);

/** What a change did, by the names of the mandates. */
const outcomeOf = ({ created, updated, archived, unchanged }: ApplyPackResponse) => ({
  created: names(created),
  updated: names(updated),
  archived: names(archived),
  unchanged: names(unchanged),
});
const NOTHING = { created: [], updated: [], archived: [], unchanged: [] };

describe("packs", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
    agentId = await test.agent();
  });
  after(() => test.close());

  const apply = (name: string, mandates: readonly Definition[], more: object = {}) =>
    test.mandates.applyPack({ name, mandates: [...mandates], ...more });
  const seqNow = async (): Promise<number> => (await test.log.caughtUp()).seq;
  const decide = async (actionType: string) => (await attempt(test.log, { agentId, actionType })).decision;
  /** Names and versions of the mandates in force in a pack. */
  const inForce = async (name: string, mandates = test.mandates) =>
    (await mandates.getPack({ name })).mandates.map((each) => `${each.name} v${each.version}`);

  it("creates, updates, archives and keeps mandates by name, sealed as one entry, in force for the next decision.", async () => {
    const first = await apply("ops", [blocking("a"), blocking("b"), blocking("c")]);
    expect(outcomeOf(first)).to.deep.equal({ ...NOTHING, created: ["a", "b", "c"] });
    expect(first.pack).to.include({ name: "ops", version: 1 });
    const seq = await seqNow();
    const second = await apply("ops", [blocking("d"), blocking(" B ", "b2"), blocking("a")]);
    expect(outcomeOf(second)).to.deep.equal({ created: ["d"], updated: ["B"], archived: ["c"], unchanged: ["a"] });
    expect(second.pack).to.include({ name: "ops", version: 2 });
    expect(await seqNow()).to.equal(seq + 1);
    expect(await inForce("ops")).to.deep.equal(["B v2", "a v1", "d v1"]);
    expect(await Promise.all(["a", "b", "b2", "c", "d"].map(decide))).to.deep.equal([
      "block",
      "allow",
      "block",
      "allow",
      "block",
    ]);
    const [archived] = second.archived;
    const { mandate } = await test.mandates.getMandate({ mandateId: archived?.mandateId ?? "" });
    expect(mandate).to.include({ name: "c", status: MandateStatus.ARCHIVED, pack: "ops" });
  });

  it("does nothing about a set that is in force, in any order.", async () => {
    const set = [blocking("same 1"), blocking("same 2")];
    const { pack } = await apply("same", set);
    const seq = await seqNow();
    const again = await apply("same", set.toReversed());
    expect(outcomeOf(again)).to.deep.equal({ ...NOTHING, unchanged: ["same 2", "same 1"] });
    expect(again.pack).to.deep.equal(pack);
    expect(await seqNow()).to.equal(seq);
    expect((await test.mandates.getPack({ name: "same" })).pack).to.deep.equal(pack);
  });

  it("tells in a dry run what would happen, and changes nothing.", async () => {
    const seq = await seqNow();
    const dry = await apply("dry", [blocking("dry 1"), blocking("dry 2")], { dryRun: true });
    expect(dry.created.map(({ mandateId }) => mandateId)).to.deep.equal([undefined, undefined]);
    expect(await seqNow()).to.equal(seq);
    expect(await reasonOf(test.mandates.getPack({ name: "dry" }))).to.equal("PACK_NOT_FOUND");
    const real = await apply("dry", [blocking("dry 1"), blocking("dry 2")]);
    expect(outcomeOf(real)).to.deep.equal(outcomeOf(dry));
    expect(real.pack).to.deep.equal(dry.pack);
    const next = [blocking("dry 1", "other")];
    const changed = await apply("dry", next, { dryRun: true });
    expect(outcomeOf(changed)).to.deep.equal({ ...NOTHING, updated: ["dry 1"], archived: ["dry 2"] });
    expect(await inForce("dry")).to.deep.equal(["dry 1 v1", "dry 2 v1"]);
    const applied = await apply("dry", next);
    expect([applied.pack, applied.updated, applied.archived]).to.deep.equal([
      changed.pack,
      changed.updated,
      changed.archived,
    ]);
  });

  it("lists every violation of every mandate with its path, and changes nothing.", async () => {
    await apply("bad", [blocking("kept")]);
    const seq = await seqNow();
    const condition: RuleInit = { type: RuleType.ACTION, decision: Decision.BLOCK };
    const set: Definition[] = [
      blocking("new"),
      { name: "kept", rules: [condition, { decision: Decision.BLOCK }] },
      { name: "aimed", scope: Scope.AGENT, agentId: "agt_none", rules: [actionRule(Decision.BLOCK, "x")] },
      { name: "aimless", scope: Scope.DEPARTMENT, rules: [actionRule(Decision.BLOCK, "x")] },
    ];
    const failure = await failureOf(apply("bad", set));
    expect(failure.violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["mandates[1].rules[0].conditions.match_action_types", "MATCH_MISSING"],
      ["mandates[1].rules[1].type", "TYPE_MISSING"],
      ["mandates[2].agent_id", "AGENT_NOT_FOUND"],
      ["mandates[3].department_id", "SCOPE_TARGET_MISSING"],
    ]);
    expect(failure.message).to.include("the pack does not compile").and.to.include("(and 3 more)");
    expect(await reasonOf(apply("bad", set, { dryRun: true }))).to.equal("MANDATE_INVALID");
    expect(await seqNow()).to.equal(seq);
    expect(await inForce("bad")).to.deep.equal(["kept v1"]);
  });

  it("refuses names that come twice, and names that are none, all together.", async () => {
    const set = [blocking("twice"), blocking(" TWICE "), blocking(" ")];
    const { violations } = await failureOf(apply("texts", set));
    expect(violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["mandates[1].name", "NAME_REPEATED"],
      ["mandates[2].name", "INVALID_FIELD"],
    ]);
  });

  it("takes no mandate from elsewhere by its name, unless it is told to adopt those outside packs.", async () => {
    const mandateId = await test.mandate([actionRule(Decision.BLOCK, "loose")], { name: "Loose" });
    await apply("owner", [blocking("owned")]);
    const seq = await seqNow();
    const failure = await failureOf(apply("taker", [blocking("fine"), blocking("loose"), blocking("owned")]));
    expect(failure.metadata).to.deep.equal({ name: "Loose", mandate_id: mandateId, field: "mandates[1]" });
    expect(failure.violations.map(({ field }) => field)).to.deep.equal(["mandates[1].name", "mandates[2].name"]);
    const adopting = { adopt: true };
    const other = await failureOf(apply("taker", [blocking("loose"), blocking("owned")], adopting));
    expect(other.metadata).to.include({ name: "owned", pack: "owner" });
    expect(await seqNow()).to.equal(seq);
    const taken = await apply("taker", [blocking("Loose", "loose")], adopting);
    expect(outcomeOf(taken)).to.deep.equal({ ...NOTHING, unchanged: ["Loose"] });
    expect(taken.pack?.version).to.equal(1);
    expect((await test.mandates.getMandate({ mandateId })).mandate).to.include({ pack: "taker", version: 1 });
    expect(outcomeOf(await apply("taker", []))).to.deep.equal({ ...NOTHING, archived: ["Loose"] });
  });

  it("lets a mandate of a pack be changed on its own, which its digest shows and the next application undoes.", async () => {
    const set = [blocking("drift 1"), blocking("drift 2")];
    const { pack, created } = await apply("drift", set);
    const [first, second] = created.map(({ mandateId }) => mandateId ?? "");
    const { mandate } = await test.mandates.updateMandate({ mandateId: first ?? "", ...blocking("drift 1", "other") });
    expect(mandate).to.include({ pack: "drift", version: 2 });
    await test.mandates.archiveMandate({ mandateId: second ?? "" });
    const drifted = await test.mandates.getPack({ name: "drift" });
    expect(drifted.pack).to.include({ version: 1, appliedDigest: pack?.digest });
    expect(drifted.pack?.digest).to.not.equal(pack?.digest);
    expect(names(drifted.mandates)).to.deep.equal(["drift 1"]);
    const restored = await apply("drift", set);
    expect(outcomeOf(restored)).to.deep.equal({ ...NOTHING, updated: ["drift 1"], created: ["drift 2"] });
    expect(restored.pack).to.include({ version: 2, digest: pack?.digest, appliedDigest: pack?.digest });
  });

  it("remembers a set that was reached by other means.", async () => {
    const [, gone] = (await apply("caught-up", [blocking("left"), blocking("gone")])).created;
    await test.mandates.archiveMandate({ mandateId: gone?.mandateId ?? "" });
    const { pack, ...outcome } = await apply("caught-up", [blocking("left")]);
    expect(outcomeOf(outcome as ApplyPackResponse)).to.deep.equal({ ...NOTHING, unchanged: ["left"] });
    expect(pack).to.include({ version: 2, appliedDigest: pack?.digest });
  });

  it("changes a pack only if it has the expected digest.", async () => {
    const [before, after] = [[blocking("guarded 1")], [blocking("guarded 2")]];
    const { pack } = await apply("guarded", before, { expectedDigest: "" });
    const digest = pack?.digest ?? "";
    expect(await reasonOf(apply("guarded", after, { expectedDigest: "" }))).to.equal("PACK_CHANGED");
    const stale = await failureOf(apply("guarded", after, { expectedDigest: "0".repeat(64) }));
    expect(stale.metadata).to.include({ pack: "guarded", digest });
    expect(await reasonOf(apply("guarded", after, { expectedDigest: "none", dryRun: true }))).to.equal("INVALID_FIELD");
    expect(outcomeOf(await apply("guarded", before, { expectedDigest: "" })).unchanged).to.deep.equal(["guarded 1"]);
    const { mandates } = await test.mandates.getPack({ name: "guarded" });
    expect(digest).to.equal(digestOf(mandates.map((each) => [each.name, each.digest] as const)));
    expect(outcomeOf(await apply("guarded", after, { expectedDigest: digest })).created).to.deep.equal(["guarded 2"]);
  });

  it("warns of what the authors should know, with the place in the set.", async () => {
    const rule: RuleInit = {
      tool: "unregistered",
      decision: Decision.BLOCK,
      conditions: { rules: [{ field: "trace_id", operator: "exists" }] },
    };
    const set = [blocking("quiet"), { name: "traced", rules: [actionRule(Decision.BLOCK, "x"), rule] }];
    for (const { warnings } of [await apply("warned", set), await apply("warned", set)]) {
      expect(warnings.map(({ path, reason }) => [path, reason])).to.deep.equal([
        ["mandates[1].rules[1].conditions.rules[0].field", "FIELD_NOT_APPROVED"],
      ]);
    }
  });

  it("compiles against a tool that changes while the set is on its way, or not at all.", async () => {
    const register = (type: string) =>
      test.replicas[1]?.tools.registerTool({
        name: "moving",
        inputSchema: { type: "object", properties: { at: { type } } },
      });
    const rule: RuleInit = {
      tool: "moving",
      decision: Decision.BLOCK,
      conditions: { rules: [{ field: "at", operator: ">", value: { kind: { case: "numberValue", value: 1 } } }] },
    };
    for (let round = 0; round < 5; round++) {
      await register("number");
      const set = [
        ...Array.from({ length: 20 }, (_, at) => blocking(`filler ${at}`)),
        { name: "moved", rules: [rule] },
      ];
      const [{ values }] = await Promise.all([settled([apply("moving", set)]), register("string")]);
      const { mandates } = await test.mandates.listMandates({ status: MandateStatus.STALE });
      // Published before the tool changed, and stale since; or refused.
      expect(names(mandates)).to.deep.equal(values.length === 0 ? [] : ["moved"]);
      await apply("moving", []);
    }
  });

  it("ends in one of two sets, whole, when two processes apply at once.", async () => {
    const sets = ["left", "right"].map((side) => ["x", "y", "z"].map((name) => blocking(`race ${name}`, side)));
    const extra = [blocking("race left only"), blocking("race right only")];
    for (let round = 0; round < 10; round++) {
      const calls = sets.map((set, at) =>
        test.replicas[at]?.mandates.applyPack({ name: "race", mandates: [...set, extra[at] ?? {}] }),
      );
      const replies = (await Promise.all(calls)) as ApplyPackResponse[];
      const { pack, mandates } = await test.mandates.getPack({ name: "race" });
      const last = replies.find((reply) => reply.pack?.version === pack?.version);
      expect(last?.pack).to.deep.equal(pack);
      expect(mandates).to.have.length(4);
      const side = mandates.some(({ name }) => name === "race left only") ? "left" : "right";
      expect(names(mandates)).to.include(`race ${side} only`);
      const shown = await Promise.all(
        mandates.map(async ({ mandateId = "" }) => (await test.mandates.getMandate({ mandateId })).mandate),
      );
      const matched = shown.filter((each) => !each?.name.endsWith("only")).map((each) => each?.rules[0]?.conditions);
      expect(matched.flatMap((conditions) => conditions?.matchActionTypes)).to.deep.equal([side, side, side]);
    }
  });

  it("pages through mandates that one entry created, in force or archived.", async () => {
    const set = Array.from({ length: 7 }, (_, at) => blocking(`paged ${at}`));
    await apply("paged", set);
    await apply(
      "paged-away",
      set.map(({ name, ...rest }) => ({ ...rest, name: `${name} away` })),
    );
    await apply("paged-away", []);
    for (const [status, wanted] of [
      [MandateStatus.ACTIVE, "paged"],
      [MandateStatus.ARCHIVED, "paged-away"],
    ] as const) {
      const seen: string[] = [];
      let pageToken = "";
      do {
        const page = await test.mandates.listMandates({ status, pageSize: 2, pageToken });
        seen.push(...page.mandates.filter(({ pack }) => pack === wanted).map(({ name }) => name));
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "");
      expect(seen.toSorted()).to.deep.equal(
        Array.from({ length: 7 }, (_, at) => `paged ${at}${wanted === "paged" ? "" : " away"}`),
      );
    }
  });

  it("bounds the patterns of the workspace and of each mandate as for single mandates.", async () => {
    const large = (name: string, rules: number): Definition => ({
      name,
      rules: Array.from({ length: rules }, (_, at) => ({
        type: RuleType.CONTENT,
        decision: Decision.BLOCK,
        conditions: { patterns: [`${name}${at}[a-z]{400}`] },
      })),
    });
    const seq = await seqNow();
    const one = await failureOf(apply("large", [large("a", 30)]));
    expect(one.violations[0]?.field).to.match(/^mandates\[0\]\.rules\[\d+\]\.conditions\.patterns/);
    const all = Array.from({ length: 30 }, (_, at) => large(`n${at}`, 9));
    const together = await failureOf(apply("large", all));
    expect(together.violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["mandates", "PATTERN_INVALID"],
    ]);
    expect(await seqNow()).to.equal(seq);
  });

  it("lets other work take turns while a large set is compiled.", async () => {
    const set = Array.from({ length: 500 }, (_, at) => ({
      name: `many ${at}`,
      rules: Array.from({ length: 8 }, (_, rule) => actionRule(Decision.BLOCK, `many.${at}.${rule}`)),
    }));
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await apply("many", set, { dryRun: true });
    clearInterval(timer);
    expect(turns).to.be.greaterThan(5);
    const tooMany = create(ApplyPackRequestSchema, { name: "many", mandates: [...set, blocking("one more")] });
    expect((await failureOf(test.mandates.applyPack(tooMany))).violations[0]?.field).to.equal("mandates");
  });

  it("is changed by admins and operators, and read by auditors too.", async () => {
    const as = (role: Role) => callerWith(test.adminCaller, role);
    const request = { name: "roles", mandates: [blocking("by role")] };
    await test.mandates.applyPack(request, as(Role.OPERATOR));
    expect(await reasonOf(test.mandates.applyPack(request, as(Role.AUDITOR)))).to.equal("ROLE_NOT_ALLOWED");
    expect(names((await test.mandates.getPack({ name: "roles" }, as(Role.AUDITOR))).mandates)).to.deep.equal([
      "by role",
    ]);
    expect(await reasonOf(test.mandates.getPack({ name: "roles" }, as(Role.AGENT)))).to.equal("ROLE_NOT_ALLOWED");
  });

  it("shows the same on other replicas, on one that starts later, and from the log alone.", async () => {
    const later = await test.replica();
    for (const name of ["ops", "drift", "race", "taker"]) {
      const here = await test.mandates.getPack({ name });
      for (const { mandates } of [...test.replicas, later])
        expect(await mandates.getPack({ name })).to.deep.equal(here);
    }
    const { pool } = test.database;
    const shown = async (state: WorkspaceState) => {
      const { mandates, packs } = await comparable(pool, state, Date.now());
      return { mandates, packs };
    };
    const cold = await coldState(pool);
    expect(await shown(cold)).to.deep.equal(await shown(await foldedState(pool)));
    expect(cold.policies.policySet().digest).to.equal((await test.log.caughtUp()).policies.policySet().digest);
  });
});
