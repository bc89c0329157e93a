import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { startService, type TestService } from "../support/service.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

describe("agentctl mandate test", () => {
  let service: TestService;
  let folder: Folder;

  async function send(method: string, path: string, body: object): Promise<Record<string, Record<string, string>>> {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(service.http + path, { method, headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, Record<string, string>>;
  }
  const run = (...more: readonly string[]): Promise<Run> =>
    agentctl(["mandate", "test", ...more], { AGENTCTL_URL: service.http, AGENTCTL_KEY: service.adminKey });
  const schema = (type: string) => ({ type: "object", properties: { amount: { type }, to: { type: "string" } } });

  before(async () => {
    service = await startService();
    folder = await createFolder();
    await send("POST", "/v1/enforce/tools", { name: "pay_invoice", input_schema: schema("number") });
    const rules = (field: string, operator: string, value: unknown) => [
      { tool: "pay_invoice", decision: "block", conditions: { rules: [{ field, operator, value }] } },
    ];
    await send("POST", "/v1/enforce/mandates", { name: 'large & "odd" <1>', rules: rules("amount", ">", 500) });
    await send("POST", "/v1/enforce/mandates", { name: "Known payees", rules: rules("to", "!=", "ACME") });
  });
  after(async () => {
    await service.stop();
    await folder.remove();
  });

  it("ends with 1 for versions without tests, and says what to run.", async () => {
    const { code, stdout } = await run();
    expect(code).to.equal(1);
    expect(stdout).to.match(
      /^("[^\n]+" version 1: no tests; run `agentctl mandate test mnd_\w+ --generate`\n){2}0 passed, 0 failed, 2 mandates without tests\n$/,
    );
    const { code: jsonCode, json } = await run("--json");
    expect([jsonCode, (json() as { without_tests: number }).without_tests]).to.deep.equal([1, 2]);
  });

  it("generates what is missing, runs it, and names the mandates.", async () => {
    const one = await run("known PAYEES", "--generate");
    expect(one.code).to.equal(0);
    expect(one.stdout).to.match(
      /^"Known payees" version 1: \d+ passed, 0 failed\n\d+ passed, 0 failed; each test is decided with its mandate alone\n$/,
    );
    const all = await run();
    expect(all.code).to.equal(1);
    expect(all.stdout).to.contain('"large & \\"odd\\" <1>" version 1: no tests; run `agentctl mandate test mnd_');
    expect(all.stdout).to.match(/, 1 mandate without tests; each test is decided with its mandate alone\n$/);
    const generated = await run("--generate", "--json");
    const { failed, mandates } = generated.json() as { failed: number; mandates: { results: object[] }[] };
    expect(failed).to.equal(0);
    expect(mandates.map(({ results }) => results.length > 0)).to.deep.equal([true, true]);
  });

  it("ends with 1 when a test fails, and writes a report for continuous integration.", async () => {
    await run("--generate");
    await send("POST", "/v1/enforce/tools", { name: "pay_invoice", input_schema: schema("string") });
    const file = folder.path("report.xml");
    const { code, stdout } = await run("--junit", file);
    expect(code).to.equal(1);
    expect(stdout).to.match(
      /"large & \\"odd\\" <1>" version 1: \d+ passed, [1-9]\d* failed\n {2}rules\[0\] .+: expected `\w+`, got `\w+`/,
    );
    const xml = await readFile(file, "utf8");
    expect(xml).to.match(
      /^<\?xml version="1.0" encoding="UTF-8"\?>\n<testsuites name="agentctl mandate test" tests="\d+" failures="[1-9]\d*" errors="0">\n/,
    );
    expect(xml).to.contain('<testsuite name="large &amp; &quot;odd&quot; &lt;1&gt; version 1" tests="');
    expect(xml).to.match(/<testcase classname="Known payees\.rules\[0\]" name="[^"<]+"\/>/);
    expect(xml).to.match(/<failure message="expected `allow`, got `block`[^"<]*">[^<]+<\/failure>/);
  });

  it("ends with 0 for a mandate that only asks a model, once its tests are generated.", async () => {
    const rules = [{ type: "semantic", decision: "escalate", conditions: { prompt: "leaks" } }];
    const { mandate } = await send("POST", "/v1/enforce/mandates", { name: "asks", rules });
    expect((await run("asks")).code).to.equal(1);
    for (const more of [["--generate"], []]) {
      const { code, stdout } = await run("asks", ...more);
      expect([code, stdout]).to.deep.equal([
        0,
        '"asks" version 1: nothing to test\n  rules[0]: a semantic rule asks a model and has no tests\n0 passed, 0 failed\n',
      ]);
    }
    await send("DELETE", `/v1/enforce/mandates/${mandate?.mandate_id}`, {});
  });

  it("ends with 1 for a new version until its tests are generated.", async () => {
    const rules = (value: number) => [{ type: "trust", decision: "block", conditions: { below: value } }];
    const { mandate } = await send("POST", "/v1/enforce/mandates", { name: "trusted", rules: rules(10) });
    expect((await run("trusted", "--generate")).code).to.equal(0);
    await send("PUT", `/v1/enforce/mandates/${mandate?.mandate_id}`, { name: "trusted", rules: rules(20) });
    const { code, stdout } = await run("trusted");
    expect(code).to.equal(1);
    expect(stdout).to.contain(
      `"trusted" version 2: no tests; run \`agentctl mandate test ${mandate?.mandate_id} --generate\``,
    );
    expect((await run("trusted", "--generate")).code).to.equal(0);
    await send("DELETE", `/v1/enforce/mandates/${mandate?.mandate_id}`, {});
  });

  it("refuses a mandate that is not in force, and a report that cannot be written.", async () => {
    const absent = await run("nothing");
    expect([absent.code, absent.stderr]).to.deep.equal([
      2,
      "agentctl: no mandate in force has the id or name `nothing`\n",
    ]);
    const unwritable = await run("--junit", folder.path("no/folder.xml"));
    expect(unwritable.code).to.equal(2);
    expect(unwritable.stderr).to.contain("cannot be written: ENOENT");
  });

  it("shows what of an expression no longer compiles, with a caret under it.", async () => {
    await send("POST", "/v1/enforce/tools", { name: "book_trip", input_schema: schema("number") });
    const rules = [
      { type: "action", tool: "book_trip", decision: "block", when: 'args.to != "" &&\n  args.amount > 5' },
    ];
    await send("POST", "/v1/enforce/mandates", { name: "trips", rules });
    const changed = { type: "object", properties: { to: { type: "string" }, price: { type: "number" } } };
    await send("POST", "/v1/enforce/tools", { name: "book_trip", input_schema: changed });
    const { stdout } = await run("trips");
    expect(stdout).to.include(
      [
        '"trips" version 1: no longer compiles',
        '  rules[0].when: the tool\'s schema has no such member `amount`; write `["amount"]` for one that it does not declare',
        "      args.amount > 5",
        "          ^",
        "",
      ].join("\n"),
    );
  });
});
