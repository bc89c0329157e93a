import { fromJson, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { GenerateTestsResponseSchema, ListTestsResponseSchema } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, reasonOf, velocityRule, withWorkspace } from "../support/harness.ts";

const schemaOf = (amount: string) => ({
  type: "object",
  properties: { amount: { type: amount } },
  required: ["amount"],
});

const amountRule = (value: number) =>
  fromJson(RuleSchema, {
    type: "RULE_TYPE_ARGUMENT",
    tool: "send_payment",
    decision: "DECISION_BLOCK",
    conditions: { rules: [{ field: "amount", operator: ">", value }] },
  });

describe("the tests of a mandate", () => {
  it("are stored as they were generated, and pass.", () =>
    withWorkspace({}, async ({ dryRuns, mandate }) => {
      const mandateId = await mandate([actionRule(Decision.BLOCK, "danger.*"), velocityRule(3)]);
      const generated = await dryRuns.generateTests({ mandateId });
      const listed = await dryRuns.listTests({ mandateId });
      const text = (schema: typeof GenerateTestsResponseSchema | typeof ListTestsResponseSchema, message: object) =>
        JSON.stringify((toJson(schema, message as never) as { tests: unknown }).tests);
      expect(text(ListTestsResponseSchema, listed)).to.equal(text(GenerateTestsResponseSchema, generated));
      const again = await dryRuns.generateTests({ mandateId });
      expect(text(GenerateTestsResponseSchema, again)).to.equal(text(GenerateTestsResponseSchema, generated));
      const { passed, failed, results } = await dryRuns.runTests({ mandateId });
      expect({ passed, failed }).to.deep.equal({ passed: generated.tests.length, failed: 0 });
      expect(results.map(({ testId }) => testId)).to.deep.equal(generated.tests.map(({ testId }) => testId));
    }));

  it("are listed page by page.", () =>
    withWorkspace({}, async ({ dryRuns, mandate }) => {
      const mandateId = await mandate([velocityRule(3)]);
      const { tests } = await dryRuns.generateTests({ mandateId });
      const ids: string[] = [];
      for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
        const page: Awaited<ReturnType<typeof dryRuns.listTests>> = await dryRuns.listTests({
          mandateId,
          pageSize: 7,
          pageToken,
        });
        expect(page.tests.length).to.be.within(1, 7);
        ids.push(...page.tests.map(({ testId }) => testId));
        pageToken = page.nextPageToken;
      }
      expect(ids).to.deep.equal(tests.map(({ testId }) => testId));
    }));

  it("belong to a version: the next one has none until they are generated again.", () =>
    withWorkspace({}, async ({ dryRuns, mandate, mandates }) => {
      const mandateId = await mandate([velocityRule(3)]);
      await dryRuns.generateTests({ mandateId });
      await mandates.updateMandate({ mandateId, name: "m", rules: [velocityRule(4)] });
      expect(await dryRuns.listTests({ mandateId })).to.deep.include({ version: 2, tests: [] });
      expect(await dryRuns.runTests({ mandateId })).to.deep.include({ passed: 0, failed: 0 });
      expect((await dryRuns.generateTests({ mandateId })).version).to.equal(2);
      expect((await dryRuns.runTests({ mandateId })).failed).to.equal(0);
    }));

  it("fail with reasons once the tool's schema makes the mandate stale.", () =>
    withWorkspace({}, async ({ dryRuns, mandate, tools }) => {
      await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("number") });
      const mandateId = await mandate([amountRule(500)]);
      await dryRuns.generateTests({ mandateId });
      expect((await dryRuns.runTests({ mandateId })).failed).to.equal(0);
      await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("string") });
      const { failed, results } = await dryRuns.runTests({ mandateId });
      expect(failed).to.be.above(0);
      const [first] = results.filter(({ passed }) => !passed);
      expect(first?.reasons.map(({ code }) => code)).to.deep.equal(["MANDATE_STALE"]);
    }));

  it("are refused for a mandate that is archived or that is none.", () =>
    withWorkspace({}, async ({ dryRuns, mandate, mandates }) => {
      const mandateId = await mandate([velocityRule(3)]);
      await dryRuns.generateTests({ mandateId });
      await mandates.archiveMandate({ mandateId });
      expect(await reasonOf(dryRuns.generateTests({ mandateId }))).to.equal("MANDATE_ARCHIVED");
      expect(await reasonOf(dryRuns.runTests({ mandateId }))).to.equal("MANDATE_ARCHIVED");
      expect((await dryRuns.listTests({ mandateId })).tests).not.to.deep.equal([]);
      expect(await reasonOf(dryRuns.generateTests({ mandateId: "mnd_none" }))).to.equal("MANDATE_NOT_FOUND");
      expect(await reasonOf(dryRuns.listTests({ mandateId: "mnd_none" }))).to.equal("MANDATE_NOT_FOUND");
    }));

  it("warn when a new version, or a tool's new schema, makes them fail, and refuse neither.", () =>
    withWorkspace({}, async ({ dryRuns, mandate, mandates, tools }) => {
      await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("number") });
      const mandateId = await mandate([amountRule(500)]);
      const update = (limit: number) => mandates.updateMandate({ mandateId, name: "m", rules: [amountRule(limit)] });
      expect((await update(400)).warnings).to.deep.equal([]);
      await dryRuns.generateTests({ mandateId });
      const { warnings, mandate: updated } = await update(600);
      expect(updated?.version).to.equal(3);
      expect(warnings.map(({ path, reason }) => `${path} ${reason}`)).to.include("rules[0] TEST_FAILS");
      expect(warnings[0]?.message).to.match(/^test `tst_\w+` of version 2 of mandate `m` fails: /);
      expect((await update(400)).warnings).to.deep.equal([]);
      const registered = await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("string") });
      expect(registered.created).to.equal(true);
      expect(registered.warnings.map(({ reason }) => reason)).to.include("TEST_FAILS");
      const pasted = await tools.pasteTool({
        definition: fromJson(ValueSchema, { name: "send_payment", inputSchema: schemaOf("boolean") }),
      });
      expect(pasted.tools.map(({ created }) => created)).to.deep.equal([true]);
      expect(pasted.warnings.map(({ reason }) => reason)).to.include("TEST_FAILS");
    }));

  it("warn when a pack makes them fail, or would, with the mandate's place in it.", () =>
    withWorkspace({}, async ({ dryRuns, mandates, tools }) => {
      await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("number") });
      const apply = (limit: number, more = {}) =>
        mandates.applyPack({
          name: "team",
          mandates: [
            { name: "drops", rules: [actionRule(Decision.BLOCK, "drop")] },
            { name: "Limits", rules: [amountRule(limit)] },
          ],
          ...more,
        });
      const { created } = await apply(500);
      for (const { mandateId = "" } of created) await dryRuns.generateTests({ mandateId });
      const dry = await apply(600, { dryRun: true });
      const { updated, warnings } = await apply(600);
      expect(dry.warnings).to.deep.equal(warnings);
      expect(updated.map(({ name }) => name)).to.deep.equal(["Limits"]);
      expect(warnings.map(({ path, reason }) => `${path} ${reason}`)).to.include("mandates[1].rules[0] TEST_FAILS");
      expect((await apply(600)).warnings).to.deep.equal([]);
    }));

  it("warn when they could not be run, with what to do.", () =>
    withWorkspace({}, async ({ database, dryRuns, mandate, mandates, tools }) => {
      await tools.registerTool({ name: "send_payment", inputSchema: schemaOf("number") });
      const mandateId = await mandate([amountRule(500)]);
      await dryRuns.generateTests({ mandateId });
      await database.pool.query("update mandate_test set suite = '{' where mandate_id = $1", [mandateId]);
      const { warnings } = await mandates.updateMandate({ mandateId, name: "m", rules: [amountRule(600)] });
      expect(warnings.map(({ path, reason, message }) => [path, reason, message])).to.deep.equal([
        ["rules", "TESTS_NOT_RUN", "tests of mandate `m` could not be read; run them with `tests:run`"],
      ]);
    }));
});
