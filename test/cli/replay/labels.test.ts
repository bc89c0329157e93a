import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { CommandError } from "../../../src/cli/command.ts";
import type { BenchmarkRun, RecordedStep } from "../../../src/cli/replay/episode.ts";
import { CallLabels } from "../../../src/cli/replay/labels.ts";

const AGENTDYN = fileURLToPath(new URL("../../testdata/replay/agentdyn-labels.yaml", import.meta.url));
const RUN: BenchmarkRun = {
  suite: "harbour",
  pipeline: "model-one",
  userTask: "user_task_1",
  injectionTask: "injection_task_1",
  attack: "important_instructions",
  utility: true,
  security: true,
};

describe("labels of calls", () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "labels-"));
  });

  after(() => rm(folder, { recursive: true }));

  async function read(content: string): Promise<CallLabels> {
    const file = join(folder, "labels.yaml");
    await writeFile(file, content);
    return CallLabels.fromFile(file);
  }

  const labelled = async (args: string, call: RecordedStep, run = RUN): Promise<string | undefined> => {
    const text = `labels: [{suite: harbour, task: injection_task_1, role: effective, tool: send, arguments: ${args}}]`;
    return (await read(text)).labelsOf(run, [{ prompt: "first" }, call])[0]?.role;
  };

  const CASES: readonly (readonly [condition: string, args: object, isLabelled: boolean])[] = [
    ["{to: {equals: EVE@eve.example}}", { to: "eve@eve.example" }, true],
    ["{to: {equals: eve@eve.example}}", { to: ["ann@a.example", "Eve@Eve.example"] }, true],
    ["{to: {equals: eve@eve.example}}", { to: "not-eve@eve.example" }, false],
    ["{to: {equals: eve@eve.example}}", { cc: "eve@eve.example" }, false],
    ["{to or cc: {equals: eve@eve.example}}", { to: "ann@a.example", cc: ["eve@eve.example"] }, true],
    ["{url: {contains: eve.example/x}}", { url: "https://www.EVE.example/x?y" }, true],
    ["{url: {contains: [a.example, b.example]}}", { url: "https://b.example" }, true],
    ["{amount: {equals: 20}}", { amount: 20 }, true],
    ["{amount: {equals: 20}}", { amount: "20.0" }, false],
    ["{body: {contains: secret}}", { body: { nested: { text: "the SECRET" } } }, true],
    ["{to: {equals: a}, subject: {contains: b}}", { to: "a", subject: "c" }, false],
    ["{constructor: {contains: o}}", {}, false],
    ["{}", {}, true],
  ];
  for (const [condition, args, isLabelled] of CASES) {
    it(`${isLabelled ? "hold" : "do not hold"} for ${condition} and ${JSON.stringify(args)}.`, async () => {
      const role = await labelled(condition, { tool: "Send", arguments: args as never });
      expect(role).to.equal(isLabelled ? "effective" : undefined);
    });
  }

  it("stand on calls of their suite and task alone, and on none of a run without attack.", async () => {
    const call = { tool: "send", arguments: {} };
    expect(await labelled("{}", call, { ...RUN, suite: "other" })).to.equal(undefined);
    expect(await labelled("{}", call, { ...RUN, injectionTask: "injection_task_10" })).to.equal(undefined);
    expect(await labelled("{}", call, { ...RUN, injectionTask: undefined })).to.equal(undefined);
    expect(await labelled("{}", { tool: "send_all", arguments: {} })).to.equal(undefined);
  });

  it("say that a call is effective if it is a stage as well.", async () => {
    const label = "suite: harbour, task: injection_task_1, tool: send";
    const labels = await read(`labels: [{${label}, role: stage}, {${label}, role: effective}]`);
    expect(labels.labelsOf(RUN, [{ tool: "send", arguments: {} }])).to.deep.equal([{ step: 0, role: "effective" }]);
  });

  it("of AgentDyn name one call for each task of its attackers.", async () => {
    const labels = await CallLabels.fromFile(AGENTDYN);
    const run = { ...RUN, suite: "shopping", injectionTask: "injection_task_5" };
    const steps = [
      { tool: "cart_add_product", arguments: { product_id: "P020", quantity: 1 } },
      { tool: "checkout_selected_cart", arguments: { product_ids: ["P001", "P020"] } },
    ];
    expect(labels.labelsOf(run, steps)).to.deep.equal([
      { step: 0, role: "stage" },
      { step: 1, role: "effective" },
    ]);
  });

  const FAULTS: readonly (readonly [content: string, fault: string])[] = [
    ["labels: [", "labels.yaml: "],
    ["[]", "labels.yaml: it must be an object"],
    ["tasks: []", "`tasks` is no member; these are: `labels`"],
    ["labels: {}", "`labels` must be a list"],
    ["labels: [{suite: s, task: t, role: bad, tool: x}]", "`labels[0].role` must be `effective` or `stage`"],
    ["labels: [{suite: s, task: t, role: stage}]", "`labels[0].tool` must be a text"],
    [
      "labels: [{suite: s, task: t, role: stage, tool: x, arguments: {a: 1}}]",
      "`labels[0].arguments.a` must be an object",
    ],
    [
      "labels: [{suite: s, task: t, role: stage, tool: x, arguments: {a: {}}}]",
      "must have either `equals` or `contains`",
    ],
    [
      "labels: [{suite: s, task: t, role: stage, tool: x, arguments: {a: {contains: ''}}}]",
      "`labels[0].arguments.a.contains` must be a text or number that is not empty",
    ],
    ["labels: [{suite: s, task: t, role: stage, tool: x, arguments: {a: {equals: []}}}]", "must be a text or number"],
    ["labels: [{suite: s, suite: t}]", "labels.yaml: "],
    [
      `a: &a [x, x]\n${Array.from("bcdefghijklmno", (name, at) => `${name}: &${name} [*${"abcdefghijklmn"[at]}, *${"abcdefghijklmn"[at]}]`).join("\n")}`,
      "labels.yaml: Excessive alias count",
    ],
  ];
  for (const [content, fault] of FAULTS) {
    it(`are refused with the member at fault: ${fault}.`, async () => {
      const error = await read(content).catch((each: unknown) => each);
      expect(error).to.be.instanceOf(CommandError);
      expect((error as CommandError).message).to.include(fault);
    });
  }
});
