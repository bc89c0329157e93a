import { expect } from "chai";
import { CommandError } from "../../../src/cli/command.ts";
import { type Batch, batchesOf } from "../../../src/cli/replay/batches.ts";
import type { Episode, Recording } from "../../../src/cli/replay/episode.ts";
import { isJsonRecord, type JsonRecord, listAt } from "../../../src/verify/json.ts";

async function* recordings(...episodes: readonly Episode[]): AsyncGenerator<Recording> {
  for (const episode of episodes) yield { episode, file: "some.jsonl" };
}

async function all(episodes: readonly Episode[], supposed: JsonRecord = {}): Promise<readonly Batch[]> {
  const batches: Batch[] = [];
  for await (const batch of batchesOf(recordings(...episodes), supposed)) batches.push(batch);
  return batches;
}

const sizeOf = (batch: Batch): number =>
  Buffer.byteLength(JSON.stringify(batch.episodes.map(({ message }) => message)));
const stepsOf = (batch: Batch | undefined): readonly JsonRecord[] =>
  listAt(batch?.episodes[0]?.message, "steps").filter(isJsonRecord);
const call = (result: string) => ({ tool: "read", arguments: {}, result });

describe("episodes in requests", () => {
  it("are at most 200 in each, in their order.", async () => {
    const episodes = Array.from({ length: 450 }, (_, index) => ({ id: `${index}`, steps: [] }));
    const batches = await all(episodes);
    expect(batches.map((batch) => batch.episodes.length)).to.deep.equal([200, 200, 50]);
    expect(batches[2]?.episodes[0]?.message.id).to.equal("400");
  });

  it("have less than 4 MiB in each, also in UTF-8, beside what is supposed.", async () => {
    const episodes = Array.from({ length: 9 }, (_, index) => ({ id: `${index}`, steps: [call("ä".repeat(500_000))] }));
    const batches = await all(episodes, { lists: "x".repeat(1_000_000) });
    expect(batches.map((batch) => batch.episodes.length)).to.deep.equal([2, 2, 2, 2, 1]);
    for (const batch of batches) expect(sizeOf(batch)).to.be.below(4_194_304 - 1_000_000);
  });

  it("have less than 120,000 values in each.", async () => {
    const steps = Array.from({ length: 10_000 }, () => call("x"));
    const episodes = Array.from({ length: 4 }, (_, index) => ({ id: `${index}`, steps }));
    expect((await all(episodes)).map((batch) => batch.episodes.length)).to.deep.equal([2, 2]);
    const supposed = { lists: Array.from({ length: 60_000 }, () => "x") };
    expect((await all(episodes, supposed)).map((batch) => batch.episodes.length)).to.deep.equal([1, 1, 1, 1]);
  });

  it("have at most 1 MiB of a prompt, in UTF-8.", async () => {
    const prompt = `a${"ä".repeat(524_288)}`;
    const [batch] = await all([{ id: "e", prompt, steps: [{ prompt }] }]);
    const cut = `a${"ä".repeat(524_287)}`;
    expect(batch?.episodes[0]?.message.prompt === cut).to.equal(true);
    const [step] = stepsOf(batch);
    expect([step?.prompt === cut, step?.is_cut]).to.deep.equal([true, true]);
    expect(batch?.cut).to.equal(2);
  });

  it("lose the ends of their longest results if one alone is too large, and this is counted.", async () => {
    const steps = [call("short"), ...Array.from({ length: 20 }, () => call("x".repeat(900_000)))];
    const [batch, ...others] = await all([{ id: "large", prompt: "p", steps }]);
    expect(others).to.deep.equal([]);
    expect(batch?.cut).to.equal(20);
    expect(sizeOf(batch as Batch)).to.be.below(4_194_304);
    expect(batch?.episodes[0]?.message.steps).to.have.length(21);
    const sent = stepsOf(batch);
    expect(sent[0]).to.deep.include({ result: "short" }).and.not.have.property("is_cut");
    expect(sent.slice(1).every(({ is_cut }) => is_cut === true)).to.equal(true);
  });

  it("send a result as far as a session reads it, and say that its end is missing.", async () => {
    const [batch] = await all([{ id: "e", steps: [call("x".repeat(1_048_576)), call("x".repeat(1_048_577))] }]);
    const sent = stepsOf(batch);
    expect(sent.map(({ result, is_cut }) => [String(result).length, is_cut])).to.deep.equal([
      [1_048_576, undefined],
      [1_048_576, true],
    ]);
    expect(batch?.cut).to.equal(1);
  });

  it("have no NUL, half of a surrogate pair or name that no tool can have.", async () => {
    const odd = { tool: "<invented>", arguments: { a: ["x\0"], b: { c: "\ud800" } }, result: "\0\udc00" };
    const [batch] = await all([{ id: "e", prompt: "p\0", steps: [odd, { ...odd, tool: "t" }, { prompt: "\0" }] }]);
    const sent = { arguments: { a: ["x\ufffd"], b: { c: "\ufffd" } }, result: "\ufffd\ufffd" };
    expect(batch?.episodes[0]?.message).to.deep.equal({
      id: "e",
      prompt: "p\ufffd",
      steps: [{ tool: "nameless-tool", ...sent }, { tool: "t", ...sent }, { prompt: "\ufffd" }],
    });
    expect(batch?.episodes[0]?.recording.episode.steps[0]).to.equal(odd);
  });

  it("are refused if they cannot be made small enough, or have too many steps.", async () => {
    const large = { tool: "t", arguments: { text: "x".repeat(4_000_000) } };
    const many = Array.from({ length: 10_001 }, () => call("x"));
    const member = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`a${index}`, 1]));
    const wide = Array.from({ length: 10_000 }, () => ({ tool: "t", arguments: member }));
    for (const steps of [[large], many, wide]) {
      const error = await all([{ id: "bad", steps }]).catch((each: unknown) => each);
      expect(error).to.be.instanceOf(CommandError);
      expect((error as CommandError).message).to.match(/^some\.jsonl: .*episode `bad`/);
    }
  });
});
