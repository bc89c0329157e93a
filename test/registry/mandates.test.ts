import { fromJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import {
  MandateMode,
  MandateStatus,
  type RuleSchema,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { digestOf } from "../../src/tree/canonical.ts";
import { coldState, comparable, foldedState } from "../log/comparable.ts";
import { attempt, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

type RuleInit = MessageInitShape<typeof RuleSchema>;

const value = (json: JsonValue) => fromJson(ValueSchema, json);
const blocking = (actionType: string): RuleInit => ({
  type: RuleType.ACTION,
  decision: Decision.BLOCK,
  conditions: { matchActionTypes: [actionType] },
});
const condition = (field: string, operator: string, json: JsonValue): RuleInit => ({
  tool: "send",
  decision: Decision.BLOCK,
  conditions: { rules: [{ field, operator, value: value(json) }] },
});

describe("mandates", () => {
  let test: TestWorkspace;
  let agentId: string;
  let departmentId: string;
  before(async () => {
    test = await openWorkspace();
    const { agents, departments, tools } = test;
    agentId = (await agents.registerAgent({ name: "payer" })).agent?.agentId ?? "";
    departmentId = (await departments.createDepartment({ name: "finance" })).department?.departmentId ?? "";
    const properties = { amount: { type: "number" }, currency: { enum: ["EUR", "USD"] } };
    await tools.registerTool({ name: "send", inputSchema: { type: "object", properties } });
  });
  after(() => test.close());

  const seqNow = async (): Promise<number> => (await test.log.caughtUp()).seq;

  it("warns of conditions on metadata that approvals do not cover.", async () => {
    const rule = { ...condition("trace_id.root", "==", "x"), tool: "unregistered" };
    const rules = [blocking("x"), rule];
    const warning = {
      path: "rules[1].conditions.rules[0].field",
      reason: "FIELD_NOT_APPROVED",
      message: "approvals do not cover `trace_id`: take it out of the workspace's `approval_ignores`",
    };
    const { mandate, warnings } = await test.mandates.createMandate({ name: "traces", rules });
    expect(warnings).to.have.length(1);
    expect(warnings[0]).to.include(warning);
    const mandateId = mandate?.mandateId ?? "";
    const updated = await test.mandates.updateMandate({ mandateId, name: "traces 2", rules });
    expect(updated.warnings[0]).to.include(warning);
    expect((await test.mandates.compileMandate({ rules })).warnings[0]).to.include(warning);
    const kept = await test.mandates.updateMandate({ mandateId, name: "traces 2", rules: [blocking("x")] });
    expect(kept.warnings).to.deep.equal([]);
    await test.mandates.archiveMandate({ mandateId });
  });

  it("keeps the author and the note of every version, in the log and over a cold start.", async () => {
    const { mandates } = test;
    const rules = [blocking("noted.one")];
    const { mandate: first } = await mandates.createMandate({ name: "noted", rules, note: " as agreed in May " });
    const mandateId = first?.mandateId ?? "";
    const by = test.adminCaller.keyId;
    expect(first).to.include({ createdBy: by, note: "as agreed in May" });
    const operator = { ...test.adminCaller, keyId: "oidc:https://idp.test|ann" };
    await mandates.updateMandate({ mandateId, name: "noted", rules: [blocking("noted.two")] }, operator);
    const { versions } = await mandates.getMandate({ mandateId });
    expect(versions.map(({ version, createdBy, note }) => [version, createdBy, note])).to.deep.equal([
      [2, operator.keyId, ""],
      [1, by, "as agreed in May"],
    ]);
    const { pool } = test.database;
    const { mandates: cold } = await comparable(pool, await coldState(pool), Date.now());
    expect(cold).to.deep.equal((await comparable(pool, await foldedState(pool), Date.now())).mandates);
    expect(await reasonOf(mandates.updateMandate({ mandateId, name: "noted", rules, note: "a\u0000b" }))).to.equal(
      "INVALID_FIELD",
    );
    await mandates.archiveMandate({ mandateId });
  });

  it("restores an older version as a new one, compiled against the tools there are now.", async () => {
    const { mandates, tools } = test;
    const schema = (name: string) => ({ type: "object", properties: { [name]: { type: "number" } } });
    await tools.registerTool({ name: "refund", inputSchema: schema("sum") });
    const over = (field: string) => [{ ...condition(field, ">", 5), tool: "refund" }];
    const created = await mandates.createMandate({ name: "refunds", rules: over("sum") });
    const mandateId = created.mandate?.mandateId ?? "";
    await mandates.updateMandate({ mandateId, name: "refunds 2", rules: [blocking("refund.send")] });
    const { mandate } = await mandates.restoreMandate({ mandateId, version: 1, note: "back" });
    expect(mandate).to.include({ name: "refunds", version: 3, restoredFrom: 1, note: "back" });
    expect(mandate?.digest).to.equal(created.mandate?.digest);
    expect((await attempt(test.log, { agentId, actionType: "refund.send" })).decision).to.equal("allow");
    const seq = await seqNow();
    expect((await mandates.restoreMandate({ mandateId, version: 1 })).mandate?.version).to.equal(3);
    expect(await seqNow()).to.equal(seq);
    await mandates.updateMandate({ mandateId, name: "refunds 2", rules: [blocking("refund.send")] });
    await tools.registerTool({ name: "refund", inputSchema: schema("total") });
    const stale = await failureOf(mandates.restoreMandate({ mandateId, version: 3 }));
    expect(stale.violations[0]).to.include({
      field: "rules[0].conditions.rules[0].field",
      reason: "FIELD_NOT_IN_SCHEMA",
    });
    expect(await reasonOf(mandates.restoreMandate({ mandateId, version: 9 }))).to.equal("MANDATE_VERSION_NOT_FOUND");
    await mandates.createMandate({ name: "refunds", rules: [blocking("x.y")] });
    expect(await reasonOf(mandates.restoreMandate({ mandateId, version: 3 }))).to.be.oneOf([
      "MANDATE_EXISTS",
      "MANDATE_INVALID",
    ]);
    await mandates.archiveMandate({ mandateId });
    expect(await reasonOf(mandates.restoreMandate({ mandateId, version: 1 }))).to.equal("MANDATE_ARCHIVED");
  });

  it("puts a mandate in force for the next decision, with defaults for what is absent.", async () => {
    const created = await test.mandates.createMandate({ name: " No drops ", rules: [blocking("db.drop")] });
    const { mandate } = created;
    expect(mandate?.mandateId).to.match(/^mnd_[a-z2-7]{26}$/);
    expect(mandate).to.include({ name: "No drops", description: "", version: 1, priority: 0 });
    expect(mandate).to.include({
      scope: Scope.WORKSPACE,
      mode: MandateMode.ENFORCE,
      status: MandateStatus.ACTIVE,
    });
    expect([mandate?.departmentId, mandate?.agentId]).to.deep.equal([undefined, undefined]);
    expect(mandate?.createdAt).to.deep.equal(mandate?.updatedAt);
    const sealed = await attempt(test.log, { agentId, actionType: "DB.drop" });
    expect(sealed).to.include({ decision: "block", path: "policy", policyName: "No drops" });
  });

  it("shows the type that the compiler chose, and hashes what was written.", async () => {
    const { mandates } = test;
    const rules = [condition("amount", ">", 5), { ...condition("anything", "==", 5), tool: "unregistered" }];
    const { mandate } = await mandates.createMandate({ name: "typed", rules });
    expect(mandate?.rules.map(({ type }) => type)).to.deep.equal([RuleType.ARGUMENT, RuleType.METADATA]);
    const [written] = (await mandates.listMandates({ asWritten: true, pageSize: 1 })).mandates;
    expect(written?.rules.map(({ type }) => type)).to.deep.equal([RuleType.UNSPECIFIED, RuleType.UNSPECIFIED]);
    const state = await test.log.caughtUp();
    const definition = state.policies.mandates.get(mandate?.mandateId ?? "")?.sealed.definition;
    expect(digestOf(definition ?? {})).to.equal(mandate?.digest);
    expect(JSON.stringify(definition)).to.not.include("RULE_TYPE");
  });

  it("refuses rules that do not compile with every violation, its path and a suggestion.", async () => {
    const { mandates } = test;
    const rules = [
      condition("amuont", ">", 5),
      condition("amount", "matches", "x"),
      condition("currency", "==", "GBP"),
    ];
    const failure = await failureOf(mandates.createMandate({ name: "broken", rules }));
    expect(failure.violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["rules[0].conditions.rules[0].field", "FIELD_NOT_IN_SCHEMA"],
      ["rules[1].conditions.rules[0].operator", "OPERATOR_NOT_FITTING"],
      ["rules[2].conditions.rules[0].value", "VALUE_NOT_IN_ENUM"],
    ]);
    expect(failure.violations[0]?.description).to.include("did you mean `amount`?");
    expect(failure.metadata.violations).to.equal("3");
    expect(await reasonOf(mandates.createMandate({ name: "broken", rules }))).to.equal("MANDATE_INVALID");
  });

  it("compiles without changing anything.", async () => {
    const { mandates } = test;
    const seq = await seqNow();
    const good = await mandates.compileMandate({ rules: [condition("amount", ">", 5)] });
    expect(good.valid).to.equal(true);
    expect(good.rules.map(({ type }) => type)).to.deep.equal([RuleType.ARGUMENT]);
    const bad = await mandates.compileMandate({ rules: [condition("amuont", ">", 5)] });
    expect(bad.valid).to.equal(false);
    expect(bad.violations[0]).to.include({ reason: "FIELD_NOT_IN_SCHEMA", suggestion: "amount" });
    expect(bad.rules).to.deep.equal([]);
    expect(await seqNow()).to.equal(seq);
  });

  it("lists an unknown department among the other violations, by its path.", async () => {
    const { mandates } = test;
    const limit = (departmentId: string) => ({
      type: RuleType.SEQUENCE,
      decision: Decision.BLOCK,
      conditions: {
        mode: SequenceMode.VELOCITY,
        maxCount: 5n,
        windowSeconds: 60n,
        matchActionTypes: ["pay.*"],
        scope: Scope.DEPARTMENT,
        departmentId,
      },
    });
    const department = await test.department();
    expect((await mandates.compileMandate({ rules: [limit(department)] })).valid).to.equal(true);
    const rules = [limit(department), limit("dep_none"), condition("amuont", ">", 5), limit(" ")];
    const want = [
      ["rules[1].conditions.department_id", "DEPARTMENT_NOT_FOUND", "no department `dep_none`"],
      ["rules[2].conditions.rules[0].field", "FIELD_NOT_IN_SCHEMA"],
      ["rules[3].conditions.department_id", "SCOPE_TARGET_MISSING"],
    ];
    const { valid, violations } = await mandates.compileMandate({ rules });
    expect(valid).to.equal(false);
    const shown = violations.map(({ path, reason, message }) =>
      reason === "DEPARTMENT_NOT_FOUND" ? [path, reason, message] : [path, reason],
    );
    expect(shown).to.have.deep.members(want);
    const failure = await failureOf(mandates.createMandate({ name: "same", rules }));
    expect(failure.violations.map(({ field, reason }) => [field, reason])).to.have.deep.members(
      want.map(([path, reason]) => [path, reason]),
    );
    const draft = { name: "same", rules };
    const dry = await failureOf(test.dryRuns.probe({ agentId, actionType: "x", drafts: [draft] }));
    expect(dry.violations.map(({ field }) => field)).to.have.members(want.map(([path]) => `drafts[0].${path}`));
    const { mandate } = await mandates.createMandate({ name: "updated", rules: [limit(department)] });
    const mandateId = mandate?.mandateId ?? "";
    const update = await failureOf(mandates.updateMandate({ mandateId, name: "updated", rules: [limit("dep_none")] }));
    expect(update.violations.map(({ field }) => field)).to.deep.equal(["rules[0].conditions.department_id"]);
  });

  it("does not compile rules that cannot be stored.", async () => {
    const rules = [{ ...condition("amount", ">", 5), description: "a\u0000b" }];
    expect(await reasonOf(test.mandates.compileMandate({ rules }))).to.equal("INVALID_FIELD");
    expect(await reasonOf(test.mandates.createMandate({ name: "same", rules }))).to.equal("INVALID_FIELD");
  });

  it("refuses a scope without its target, a target without its scope, and targets that do not exist.", async () => {
    const { mandates } = test;
    const rules = [blocking("x")];
    const velocity: RuleInit = {
      type: RuleType.SEQUENCE,
      decision: Decision.BLOCK,
      conditions: {
        mode: SequenceMode.VELOCITY,
        matchActionTypes: ["x"],
        maxCount: 1n,
        windowSeconds: 60n,
        scope: Scope.DEPARTMENT,
        departmentId: "dep_no",
      },
    };
    const cases = [
      { request: { scope: Scope.AGENT, rules }, want: "agent_id SCOPE_TARGET_MISSING" },
      { request: { scope: Scope.DEPARTMENT, departmentId: " ", rules }, want: "department_id SCOPE_TARGET_MISSING" },
      { request: { agentId, rules }, want: "agent_id SCOPE_TARGET_NOT_APPLICABLE" },
      { request: { scope: Scope.AGENT, agentId: "agt_no", rules }, want: "agent_id AGENT_NOT_FOUND" },
      {
        request: { scope: Scope.DEPARTMENT, departmentId: "dep_no", rules },
        want: "department_id DEPARTMENT_NOT_FOUND",
      },
      { request: { rules: [velocity] }, want: "rules[0].conditions.department_id DEPARTMENT_NOT_FOUND" },
    ];
    for (const { request, want } of cases) {
      const failure = await failureOf(mandates.createMandate({ name: "aimless", ...request }));
      expect(failure.metadata.rule_reason, want).to.equal(want.split(" ")[1]);
      expect(failure.violations.map(({ field, reason }) => `${field} ${reason}`)).to.deep.equal([want]);
    }
    const scoped = { name: "scoped", scope: Scope.DEPARTMENT, departmentId, rules };
    expect((await mandates.createMandate(scoped)).mandate).to.include({ scope: Scope.DEPARTMENT, departmentId });
  });

  it("keeps names unique among mandates that are not archived.", async () => {
    const { mandates } = test;
    const rules = [blocking("y")];
    const first = (await mandates.createMandate({ name: "Taken", rules })).mandate?.mandateId ?? "";
    const second = (await mandates.createMandate({ name: "Other", rules })).mandate?.mandateId ?? "";
    expect(await reasonOf(mandates.createMandate({ name: " taken", rules }))).to.equal("MANDATE_EXISTS");
    const rename = { mandateId: second, name: "TAKEN", rules };
    expect(await reasonOf(mandates.updateMandate(rename))).to.equal("MANDATE_EXISTS");
    await mandates.archiveMandate({ mandateId: first });
    expect((await mandates.updateMandate(rename)).mandate).to.include({ name: "TAKEN", version: 2 });
  });

  it("makes versions of changes only, and shows each as it was.", async () => {
    const { mandates } = test;
    const mandateId =
      (await mandates.createMandate({ name: "versions", rules: [blocking("v1")] })).mandate?.mandateId ?? "";
    const seq = await seqNow();
    const same = await mandates.updateMandate({ mandateId, name: "versions", rules: [blocking("v1")] });
    expect(same.mandate?.version).to.equal(1);
    expect(await seqNow()).to.equal(seq);
    const observe = { mandateId, name: "versions", mode: MandateMode.OBSERVE, rules: [blocking("v2")] };
    const { mandate } = await mandates.updateMandate(observe);
    expect(mandate).to.include({ version: 2, mode: MandateMode.OBSERVE });
    expect((await attempt(test.log, { agentId, actionType: "v2" })).decision).to.equal("allow");
    const got = await mandates.getMandate({ mandateId });
    expect(got.mandate).to.deep.equal(mandate);
    expect(got.versions.map(({ version, status }) => [version, status])).to.deep.equal([
      [2, MandateStatus.ACTIVE],
      [1, MandateStatus.ARCHIVED],
    ]);
    expect(got.versions[1]?.rules[0]?.conditions?.matchActionTypes).to.deep.equal(["v1"]);
    expect(got.versions[1]?.createdAt).to.deep.equal(mandate?.createdAt);
  });

  it("archives a mandate for good: it decides no more, takes no version, and stays readable.", async () => {
    const { mandates } = test;
    const mandateId =
      (await mandates.createMandate({ name: "fading", rules: [blocking("fade")] })).mandate?.mandateId ?? "";
    expect((await attempt(test.log, { agentId, actionType: "fade" })).decision).to.equal("block");
    const { mandate } = await mandates.archiveMandate({ mandateId });
    expect(mandate).to.include({ status: MandateStatus.ARCHIVED, version: 1 });
    expect((await attempt(test.log, { agentId, actionType: "fade" })).decision).to.equal("allow");
    const update = { mandateId, name: "fading", rules: [blocking("z")] };
    expect(await reasonOf(mandates.updateMandate(update))).to.equal("MANDATE_ARCHIVED");
    const seq = await seqNow();
    expect((await mandates.archiveMandate({ mandateId })).mandate).to.deep.equal(mandate);
    expect(await seqNow()).to.equal(seq);
    expect((await mandates.getMandate({ mandateId })).mandate).to.deep.equal(mandate);
  });

  it("refuses more conditions than one call may be compared with, over all mandates of a tool.", async () => {
    const rules = (count: number): RuleInit[] =>
      Array.from({ length: count }, () => ({
        tool: "wide",
        decision: Decision.BLOCK,
        conditions: {
          operator: "OR",
          rules: Array.from({ length: 100 }, () => ({ field: "a", operator: ">", value: value(5) })),
        },
      }));
    await test.tools.registerTool({
      name: "wide",
      inputSchema: { type: "object", properties: { a: { type: "number" } } },
    });
    await test.mandates.createMandate({ name: "wide 1", rules: rules(30) });
    const refused = await failureOf(test.mandates.createMandate({ name: "wide 2", rules: rules(21) }));
    expect(refused.violations.map(({ field, reason }) => [field, reason])).to.deep.equal([
      ["rules", "LIMIT_OUT_OF_RANGE"],
    ]);
    expect(refused.message).to.contain("a call of `wide` would be compared with 5100 conditions");
    const { mandate } = await test.mandates.createMandate({ name: "wide 2", rules: rules(20) });
    for (const { mandateId, name } of (await test.mandates.listMandates({})).mandates)
      if (name.startsWith("wide")) await test.mandates.archiveMandate({ mandateId });
    expect(mandate?.version).to.equal(1);
  });

  it("says that a mandate it does not know is not found.", async () => {
    const { mandates } = test;
    const mandateId = "mnd_no";
    expect(await reasonOf(mandates.getMandate({ mandateId }))).to.equal("MANDATE_NOT_FOUND");
    expect(await reasonOf(mandates.archiveMandate({ mandateId }))).to.equal("MANDATE_NOT_FOUND");
    const update = { mandateId, name: "x", rules: [blocking("z")] };
    expect(await reasonOf(mandates.updateMandate(update))).to.equal("MANDATE_NOT_FOUND");
  });

  it("refuses texts that the store cannot keep.", async () => {
    const { mandates } = test;
    const rules = [{ ...blocking("x"), description: "a\u0000" }];
    const inRule = await failureOf(mandates.createMandate({ name: "nul", rules }));
    expect(inRule.metadata.field).to.equal("rules[0].description");
    const described = { name: "nul", description: "a\u0000", rules: [blocking("x")] };
    expect((await failureOf(mandates.createMandate(described))).metadata.field).to.equal("description");
    expect(await reasonOf(mandates.createMandate({ name: " ", rules: [blocking("x")] }))).to.equal("INVALID_FIELD");
  });

  it("lists newest first a page at a time, archived ones only when asked for.", async () => {
    const { mandates } = test;
    for (const status of [MandateStatus.UNSPECIFIED, MandateStatus.ARCHIVED]) {
      const all = (await mandates.listMandates({ status, pageSize: 500 })).mandates.map(({ mandateId }) => mandateId);
      expect(all.length).to.be.greaterThan(1);
      const seen: string[] = [];
      let pageToken = "";
      do {
        const page = await mandates.listMandates({ status, pageSize: 1, pageToken });
        for (const mandate of page.mandates) {
          seen.push(mandate.mandateId);
          expect(mandate.status === MandateStatus.ARCHIVED).to.equal(status === MandateStatus.ARCHIVED);
        }
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "");
      expect(seen).to.deep.equal(all);
    }
  });

  it("shows the same on a replica that starts later.", async () => {
    const other = await test.replica();
    for (const status of [MandateStatus.UNSPECIFIED, MandateStatus.ARCHIVED]) {
      const here = await test.mandates.listMandates({ status });
      expect(await other.mandates.listMandates({ status })).to.deep.equal(here);
    }
  });
});
