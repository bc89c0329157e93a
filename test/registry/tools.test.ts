import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { MandateStatus } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { getTool } from "../../src/registry/tools.ts";
import { digestOf } from "../../src/tree/canonical.ts";
import { attempt, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

const AMOUNT: JsonObject = {
  type: "object",
  required: ["amount"],
  properties: { amount: { type: "number", minimum: 0 }, to: { $ref: "#/$defs/account" } },
  $defs: { account: { type: "object", properties: { iban: { type: "string" } } } },
};
const RENAMED: JsonObject = { type: "object", properties: { total: { type: "number" } } };

describe("tools", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("registers a schema with its flattened paths and its digest.", async () => {
    const { tool, created } = await test.tools.registerTool({
      name: "payments/send",
      description: "sends money",
      inputSchema: AMOUNT,
    });
    expect(created).to.equal(true);
    expect(tool).to.include({ name: "payments/send", version: 1, description: "sends money", source: ToolSource.API });
    expect(tool?.digest).to.equal(digestOf(AMOUNT));
    expect(tool?.inputSchema).to.deep.equal(AMOUNT);
    expect(tool?.arguments.map(({ path }) => path)).to.deep.equal(["amount", "to", "to.iban"]);
    expect(tool?.arguments[0]).to.include({ required: true, minimum: 0 });
  });

  it("makes no version of the same schema, whatever the order of its members.", async () => {
    const { tools } = test;
    const reordered = Object.fromEntries(Object.entries(AMOUNT).reverse());
    const { seq } = await test.log.caughtUp();
    for (const description of [undefined, "sends money"]) {
      const again = await tools.registerTool({ name: "payments/send", description, inputSchema: reordered });
      expect(again.created).to.equal(false);
      expect(again.tool).to.include({ version: 1, description: "sends money" });
    }
    expect((await test.log.caughtUp()).seq).to.equal(seq);
  });

  it("keeps a new description of the same schema without a version, on every replica and over a restart.", async () => {
    const { tools } = test;
    const open = await test.replica();
    await open.tools.getTool({ name: "payments/send" });
    const again = await tools.registerTool({ name: "Payments/Send", description: "pays", inputSchema: AMOUNT });
    expect(again.created).to.equal(false);
    expect(again.tool).to.include({ name: "payments/send", version: 1, description: "pays" });
    for (const replica of [test, open, await test.replica()]) {
      const { tool, versions } = await replica.tools.getTool({ name: "payments/send" });
      expect(tool).to.deep.equal(again.tool);
      expect(versions).to.deep.equal([again.tool]);
    }
    await tools.registerTool({ name: "payments/send", description: "sends money", inputSchema: AMOUNT });
  });

  it("makes the next version of a changed schema and keeps the earlier ones.", async () => {
    const { tools } = test;
    const { tool, created } = await tools.registerTool({ name: "payments/send", inputSchema: RENAMED });
    expect(created).to.equal(true);
    expect(tool).to.include({ version: 2, description: "sends money" });
    const got = await tools.getTool({ name: "payments/send" });
    expect(got.tool).to.deep.equal(tool);
    expect(got.versions.map(({ version }) => version)).to.deep.equal([2, 1]);
    expect(got.versions[1]?.inputSchema).to.deep.equal(AMOUNT);
    expect(got.versions[1]?.arguments.map(({ path }) => path)).to.deep.equal(["amount", "to", "to.iban"]);
    const back = await tools.registerTool({ name: "payments/send", inputSchema: AMOUNT });
    expect(back.tool?.version).to.equal(3);
  });

  it("keeps what is declared for provenance over schemas, replicas and restarts, until it is replaced.", async () => {
    const { tools } = test;
    const declared = { trustedFields: ["[].email"], sessionArguments: ["to.iban"], sessionFields: ["id"] };
    const registered = await tools.registerTool({ name: "contacts", inputSchema: AMOUNT, provenance: declared });
    expect(registered.tool?.provenance).to.deep.include({ ...declared, freeFields: [] });
    // Registered as the gateway does: without a declaration.
    const next = await tools.registerTool({ name: "contacts", inputSchema: RENAMED });
    expect(next.tool?.version).to.equal(2);
    expect(next.tool?.provenance).to.deep.equal(registered.tool?.provenance);
    const { tools: pasted } = await tools.pasteTool({
      definition: fromJson(ValueSchema, { name: "contacts", inputSchema: AMOUNT }),
    });
    expect(pasted[0]?.tool).to.deep.include({ version: 3, provenance: registered.tool?.provenance });
    const { seq } = await test.log.caughtUp();
    await tools.updateTool({ name: "contacts", provenance: declared });
    await tools.registerTool({ name: "contacts", inputSchema: AMOUNT, provenance: declared });
    expect((await test.log.caughtUp()).seq, "the same again changes nothing").to.equal(seq);
    const open = await test.replica();
    const { tool } = await tools.updateTool({ name: "contacts", provenance: { freeFields: ["body", '["body"]'] } });
    expect(tool?.provenance).to.deep.include({ freeFields: ["body"], trustedFields: [], sessionArguments: [] });
    for (const replica of [test, open, await test.replica()]) {
      const got = await replica.tools.getTool({ name: "contacts" });
      expect(got.tool).to.deep.equal(tool);
      expect(got.versions.map((each) => each.provenance?.trustedFields)).to.deep.equal([
        [],
        ["[].email"],
        ["[].email"],
      ]);
      expect(getTool(await replica.log.caughtUp(), "contacts").schema.provenance).to.deep.equal({
        trustedFields: undefined,
        freeFields: ["body"],
        sessionArguments: [],
        sessionFields: [],
      });
    }
    const removed = await tools.updateTool({ name: "contacts", provenance: {} });
    expect(removed.tool?.provenance).to.equal(undefined);
    expect((await (await test.replica()).tools.getTool({ name: "contacts" })).tool?.provenance).to.equal(undefined);
  });

  it("refuses paths that are none, and arguments that the schema does not declare.", async () => {
    const { tools } = test;
    await tools.registerTool({ name: "refusing", inputSchema: RENAMED });
    const cases = [
      [{ trustedFields: ["a", "b..c"] }, "provenance.trusted_fields[1]"],
      [{ freeFields: ["[]a"] }, "provenance.free_fields[0]"],
      [{ sessionFields: ["a\u0000"] }, "provenance.session_fields[0]"],
      [{ sessionArguments: ["[].total"] }, "provenance.session_arguments[0]"],
      [{ sessionArguments: ["__proto__"] }, "provenance.session_arguments[0]"],
      [{ trustedFields: ["a"], freeFields: ["b"] }, "provenance.free_fields"],
    ] as const;
    for (const [provenance, field] of cases) {
      const update = { name: "refusing", provenance } as const;
      const failure = await failureOf(() => tools.updateTool(update as never));
      expect(failure.violations.map((each) => each.field)).to.deep.equal([field]);
      const register = { ...update, inputSchema: RENAMED };
      expect(await reasonOf(() => tools.registerTool(register as never))).to.equal("INVALID_FIELD");
    }
  });

  it("gives the last 100 versions.", async () => {
    const { tools } = test;
    for (let index = 0; index < 102; index++) {
      const properties = { [`p${index}`]: { type: "string" } };
      await tools.registerTool({ name: "many", inputSchema: { type: "object", properties } });
    }
    const { versions } = await tools.getTool({ name: "many" });
    expect(versions.map(({ version }) => version)).to.deep.equal(
      Array.from({ length: 100 }, (_, index) => 102 - index),
    );
  });

  it("refuses a schema that is none with every place at fault.", async () => {
    const inputSchema = { type: "objekt", properties: { a: { type: "number", minimum: "x" } } };
    const failure = await failureOf(test.tools.registerTool({ name: "bad", inputSchema }));
    expect(failure.violations.map(({ field }) => field)).to.deep.equal([
      "input_schema.properties.a.minimum",
      "input_schema.type",
    ]);
    expect(await reasonOf(test.tools.registerTool({ name: "bad", inputSchema }))).to.equal("SCHEMA_INVALID");
  });

  it("refuses a pattern that is no regular expression, and says what is wrong with it.", async () => {
    const inputSchema = { type: "object", properties: { iban: { type: "string", pattern: "^[A-Z{2}" } } };
    const failure = await failureOf(test.tools.registerTool({ name: "bad", inputSchema }));
    expect(failure.violations).to.deep.equal([
      {
        field: "input_schema.properties.iban.pattern",
        reason: "PATTERN_INVALID",
        description: "is not a regular expression of ECMA-262 with the flag `u`: Unterminated character class",
      },
    ]);
    expect(await reasonOf(test.tools.getTool({ name: "bad" }))).to.equal("TOOL_NOT_FOUND");
  });

  it("stores a pattern that RE2 does not have, and says that it is not checked.", async () => {
    const inputSchema = {
      type: "object",
      properties: { a: { type: "string", pattern: "^(?!x)" }, b: { type: "string", pattern: "^y" } },
      patternProperties: { "^(z)\\1$": {} },
    };
    const { tool, created } = await test.tools.registerTool({ name: "lookahead", inputSchema });
    expect(created).to.equal(true);
    expect(tool?.warnings.map(({ path, reason }) => [path, reason]).sort()).to.deep.equal([
      ["input_schema.patternProperties.^(z)\\1$", "PATTERN_NOT_CHECKED"],
      ["input_schema.properties.a.pattern", "PATTERN_NOT_CHECKED"],
    ]);
    const got = await test.tools.getTool({ name: "lookahead" });
    expect(got.tool).to.deep.equal(tool);
    expect((await test.tools.getTool({ name: "payments/send" })).tool?.warnings).to.deep.equal([]);
  });

  it("refuses what the store cannot keep.", async () => {
    const { tools } = test;
    const inputSchema = { type: "object", title: "a\u0000b" };
    expect(await reasonOf(tools.registerTool({ name: "nul", inputSchema }))).to.equal("INVALID_FIELD");
    const description = "a\u0000b";
    const call = tools.registerTool({ name: "nul", description, inputSchema: { type: "object" } });
    expect(await reasonOf(call)).to.equal("INVALID_FIELD");
    expect(await reasonOf(tools.registerTool({ name: "a\u00a0\u200bb", inputSchema: AMOUNT }))).to.equal(
      "INVALID_FIELD",
    );
  });

  it("keeps every schema exactly over a restart.", async () => {
    const odd = {
      type: "object",
      properties: { $where: { enum: [{ $in: [1] }, null, "a'b\\c\n"] }, n: { minimum: 1e-7, maximum: 1e21 } },
    };
    const { tool } = await test.tools.registerTool({ name: "odd", inputSchema: odd });
    const other = await test.replica();
    const got = await other.tools.getTool({ name: "odd" });
    expect(got.tool).to.deep.equal(tool);
    expect(digestOf(got.tool?.inputSchema as never)).to.equal(digestOf(odd as never));
  });

  it("finds a tool in any case, and says that one it does not know is not found.", async () => {
    const { tools } = test;
    expect((await tools.getTool({ name: "Payments/Send" })).tool?.name).to.equal("payments/send");
    expect(await reasonOf(tools.getTool({ name: "payments.send" }))).to.equal("TOOL_NOT_FOUND");
  });

  it("lists tools by name, a page at a time.", async () => {
    const { tools } = test;
    for (const name of ["Zeta", "alpha", "beta.x", "_low"]) await tools.registerTool({ name, inputSchema: AMOUNT });
    const all = (await tools.listTools({ pageSize: 500 })).tools.map(({ name }) => name);
    expect(all).to.deep.equal([...all].sort());
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await tools.listTools({ pageSize: 2, pageToken });
      seen.push(...page.tools.map(({ name }) => name));
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    expect(seen).to.deep.equal(all);
  });

  it("registers a paste in one go, and tells which versions it made.", async () => {
    const { tools } = test;
    await tools.registerTool({ name: "known", inputSchema: AMOUNT });
    const definition = fromJson(ValueSchema, {
      tools: [
        { name: "known", inputSchema: AMOUNT },
        { type: "function", function: { name: "fresh", description: "new", parameters: RENAMED } },
      ],
    });
    const pasted = (await tools.pasteTool({ definition })).tools;
    expect(pasted.map(({ tool, created }) => [tool?.name, created])).to.deep.equal([
      ["known", false],
      ["fresh", true],
    ]);
    expect(pasted[1]?.tool).to.include({ source: ToolSource.PASTE, description: "new" });
  });

  it("registers nothing of a paste with one bad schema, and names its place.", async () => {
    const { tools } = test;
    const definition = fromJson(ValueSchema, [
      { name: "good", inputSchema: AMOUNT },
      { type: "function", function: { name: "worse", parameters: { type: "object", properties: { a: 5 } } } },
    ]);
    const failure = await failureOf(tools.pasteTool({ definition }));
    expect(failure.violations[0]?.field).to.equal("definition[1].function.parameters.properties.a");
    expect(await reasonOf(tools.getTool({ name: "good" }))).to.equal("TOOL_NOT_FOUND");
    expect(await reasonOf(tools.pasteTool({ definition: fromJson(ValueSchema, []) }))).to.equal("PASTE_NOT_RECOGNISED");
  });
});

describe("a changed tool", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  const rules = (field: string) => [
    {
      tool: "send",
      decision: Decision.BLOCK,
      conditions: { rules: [{ field, operator: ">", value: fromJson(ValueSchema, 100) }] },
    },
  ];

  it("makes the mandates on it stale on every replica, which blocks its calls, until they are fixed.", async () => {
    const { agents, tools, mandates } = test;
    const other = await test.replica();
    const agentId = (await agents.registerAgent({ name: "payer" })).agent?.agentId ?? "";
    await tools.registerTool({ name: "send", inputSchema: AMOUNT });
    const mandateId = (await mandates.createMandate({ name: "cap", rules: rules("amount") })).mandate?.mandateId ?? "";
    const call = { agentId, actionType: "send", metadata: { arguments: { amount: 5, total: 500 } } };
    expect((await attempt(other.log, call)).decision).to.equal("allow");

    await other.tools.registerTool({ name: "send", inputSchema: RENAMED });
    const { decision, reasons } = await attempt(test.log, call);
    expect([decision, reasons[0]?.code]).to.deep.equal(["block", "MANDATE_STALE"]);
    const stale = (await mandates.getMandate({ mandateId })).mandate;
    expect(stale?.status).to.equal(MandateStatus.STALE);
    expect(stale?.violations.map(({ path, reason }) => [path, reason])).to.deep.equal([
      ["rules[0].conditions.rules[0].field", "FIELD_NOT_IN_SCHEMA"],
    ]);
    const listed = await mandates.listMandates({ status: MandateStatus.STALE });
    expect(listed.mandates.map((each) => each.mandateId)).to.deep.equal([mandateId]);
    expect((await mandates.listMandates({ status: MandateStatus.ACTIVE })).mandates).to.deep.equal([]);

    const fixed = await other.mandates.updateMandate({ mandateId, name: "cap", rules: rules("total") });
    expect(fixed.mandate).to.include({ version: 2, status: MandateStatus.ACTIVE });
    expect((await attempt(test.log, call)).decision).to.equal("block");
  });

  it("makes a stale mandate active again when the schema comes back.", async () => {
    const { tools, mandates } = test;
    await tools.registerTool({ name: "send", inputSchema: AMOUNT });
    expect((await mandates.listMandates({ status: MandateStatus.STALE })).mandates).to.have.length(1);
    await tools.registerTool({ name: "send", inputSchema: RENAMED });
    const { mandates: all } = await mandates.listMandates({});
    expect(all.map(({ status, version }) => [status, version])).to.deep.equal([[MandateStatus.ACTIVE, 2]]);
  });
});
