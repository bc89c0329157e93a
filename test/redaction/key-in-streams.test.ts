import { expect } from "chai";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, sealedChanges } from "./harness.ts";
import { startRawReceiver } from "./raw-receiver.ts";
import { chatEvents, chunk, completion, event, responseEvents, sends, streams } from "./upstream.ts";

/** As long as those of today: longer than a word that the detectors wait for. */
const SHARED_KEY = `sk-proj-${"Ab3dEf-4471_zZ9".repeat(5)}`;
const BEFORE = "the key is ";
const AFTER = ", keep it";
const MASKED = `${BEFORE}***${AFTER}`;
const DONE = "data: [DONE]\n\n";

/** Keys that the text around them, their form or their length could hide. */
const ODD_KEYS = {
  "has signs that JSON escapes": 'sk-"quoted"\\and\\\\"',
  "holds personal values": `sk-${PERSONAL.email}-4111111111111111-x`,
  "has digits and colons, as JSON does": "4471:8812:true",
  "begins as JSON does": '{"sk":[1]}-key',
  "has two characters": "q7",
  "repeats its beginning": "ababab-ababac",
  "is longer than any registered value": `sk-${"0aB-".repeat(250)}`,
} as const;

/** A streamed text of one operation, and how a client joins it. */
interface Kind {
  readonly path: string;
  eventsOf(pieces: readonly string[]): string[];
  textIn(json: Joined): string | undefined;
}

interface Joined {
  readonly type?: string;
  readonly delta?: string;
  readonly choices?: readonly {
    readonly text?: string;
    readonly delta?: {
      readonly content?: string;
      readonly tool_calls?: readonly { readonly function?: { readonly arguments?: string } }[];
    };
  }[];
}

const COMPLETION = { id: "cmpl-1", object: "text_completion", created: 1_700_000_000, model: "test-1" };
const textChunk = (text: string, finish_reason: string | null = null): string =>
  event({ ...COMPLETION, choices: [{ index: 0, text, logprobs: null, finish_reason }] });
const argumentsChunk = (text: string): string => chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] });
const argumentsEvent = (type: string, more: object): string =>
  event({ type: `response.function_call_arguments.${type}`, item_id: "fc_1", output_index: 0, ...more });

const KINDS: Readonly<Record<string, Kind>> = {
  "chat completions": {
    path: "/chat/completions",
    eventsOf: chatEvents,
    textIn: ({ choices }) => choices?.[0]?.delta?.content,
  },
  "arguments of chat completions": {
    path: "/chat/completions",
    eventsOf: (pieces) => [...pieces.map(argumentsChunk), chunk({}, "tool_calls"), DONE],
    textIn: ({ choices }) => choices?.[0]?.delta?.tool_calls?.[0]?.function?.arguments,
  },
  completions: {
    path: "/completions",
    eventsOf: (pieces) => [...pieces.map((piece) => textChunk(piece)), textChunk("", "stop"), DONE],
    textIn: ({ choices }) => choices?.[0]?.text,
  },
  responses: {
    path: "/responses",
    eventsOf: (pieces) => responseEvents(pieces),
    textIn: ({ type, delta }) => (type === "response.output_text.delta" ? delta : undefined),
  },
  "arguments of responses": {
    path: "/responses",
    eventsOf: (pieces) => [
      ...pieces.map((delta) => argumentsEvent("delta", { delta })),
      argumentsEvent("done", { arguments: pieces.join("") }),
    ],
    textIn: ({ type, delta }) => (type === "response.function_call_arguments.delta" ? delta : undefined),
  },
};

/** Cuts of a key that one answer has. */
const CUTS_OF_AN_ANSWER = 12;

/** A key cut once at every place, into three pieces around every character, and into single characters. `step`: places to go on by. */
function* cutsOf(key: string, step = 1): Generator<readonly string[]> {
  for (let place = 1; place < key.length; place += step) yield [key.slice(0, place), key.slice(place)];
  for (let place = 1; place < key.length - 1; place += step)
    yield [key.slice(0, place), key.slice(place, place + 1), key.slice(place + 1)];
  yield [...key];
}

const jsonText = (text: string): string => JSON.stringify(text).slice(1, -1);

describe("our key for the model's service in an answer", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: SHARED_KEY });
  });
  after(() => workspace?.close());

  const useKey = (llmKey: string) =>
    workspace.redaction.putSettings(workspace.caller, {
      restoreValues: false,
      allowMedia: false,
      disabledKinds: [],
      allow: [],
      llmUrl: workspace.upstream.url,
      llmKey,
    });

  /** What a client makes of an answer that says these pieces, and the answer as it went over the wire. */
  async function answerTo({ path, eventsOf, textIn }: Kind, pieces: readonly string[]) {
    workspace.upstream.answer = streams([eventsOf(pieces).join("")]);
    const body = { model: "test-1", stream: true, ...(path === "/completions" ? { prompt: "hi" } : {}) };
    const response = await workspace.post(path, { ...body, ...(path === "/responses" ? { input: "hi" } : {}) });
    const raw = await response.text();
    expect(response.status, raw).to.equal(200);
    const events = (raw.match(/(?<=^data: )\{.*$/gm) ?? []).map((line) => JSON.parse(line) as Joined);
    return { raw, said: events.map((each) => textIn(each) ?? "").join("") };
  }

  /** Asserts that a key is masked however it is cut, in answers that say it several times. */
  async function assertMasked(kind: Kind, key: string, step = 1): Promise<void> {
    const cuts = [...cutsOf(key, step)];
    while (cuts.length > 0) {
      const some = cuts.splice(0, CUTS_OF_AN_ANSWER);
      const { raw, said } = await answerTo(
        kind,
        some.flatMap((pieces) => [BEFORE, ...pieces, AFTER]),
      );
      const told = `${kind.path}: ${some.map((pieces) => pieces.join("|")).join("\n")}`;
      expect(said, told).to.equal(MASKED.repeat(some.length));
      expect(raw, told).not.to.contain(jsonText(key));
    }
  }

  for (const [name, kind] of Object.entries(KINDS)) {
    it(`is masked in ${name}, wherever the events cut it.`, () => assertMasked(kind, SHARED_KEY));

    it(`is masked in ${name} at the end of the text, inside of a word and twice in a row.`, async () => {
      const characters = [...SHARED_KEY];
      expect((await answerTo(kind, [BEFORE, ...characters])).said).to.equal(`${BEFORE}***`);
      expect((await answerTo(kind, ["Bearer", ...characters, "tail"])).said).to.equal("Bearer***tail");
      expect((await answerTo(kind, [...characters, ...characters])).said).to.equal("******");
      expect((await answerTo(kind, [SHARED_KEY.slice(0, -1), ", keep it"])).said).to.include(SHARED_KEY.slice(0, -1));
    });
  }

  for (const [form, key] of Object.entries(ODD_KEYS)) {
    it(`is masked if it ${form}.`, async () => {
      await useKey(key);
      for (const kind of Object.values(KINDS)) await assertMasked(kind, key, Math.ceil(key.length / 12));
    });
  }

  it("is masked behind the escapes of a JSON document.", async () => {
    const key = ODD_KEYS["has signs that JSON escapes"];
    await useKey(key);
    const document = JSON.stringify({ note: `${BEFORE}${key}${AFTER}`, other: [key] });
    for (const name of ["arguments of chat completions", "arguments of responses"]) {
      const { said } = await answerTo(KINDS[name] as Kind, [...document]);
      expect(JSON.parse(said)).to.deep.equal({ note: MASKED, other: ["***"] });
    }
  });

  it("is not cut where the text of an error is.", async () => {
    await useKey(SHARED_KEY);
    for (const length of [1_000 - SHARED_KEY.length / 2, 999, 1_000]) {
      const given = `${"word ".repeat(200).slice(0, length)} ${SHARED_KEY} end`;
      workspace.upstream.answer = (_asked, response) =>
        response.writeHead(400, { "content-type": "text/plain" }).end(given);
      const answer = await workspace.post("/chat/completions", { model: "test-1", messages: [] });
      expect(await answer.text())
        .to.contain("word")
        .and.not.to.contain(SHARED_KEY.slice(0, 4));
    }
  });

  it("counts as no leak; no report, log entry or log line holds it or a part of it.", async () => {
    const receiver = await startRawReceiver();
    await workspace.redaction.putSettings(workspace.caller, {
      restoreValues: false,
      allowMedia: false,
      disabledKinds: [],
      allow: [],
    });
    const url = `http://127.0.0.1:${receiver.port}/hook`;
    await workspace.redaction.webhooks.create(workspace.caller, { url, secret: undefined });
    const leaks = async () => (await sealedChanges(workspace, "leakage_detected")).length;
    const before = await leaks();
    for (const kind of Object.values(KINDS)) await answerTo(kind, [BEFORE, ...SHARED_KEY, AFTER]);
    workspace.upstream.answer = sends(completion({ content: `${BEFORE}${SHARED_KEY}` }));
    await workspace.post("/chat/completions", { model: "test-1", messages: [] });
    expect(await leaks()).to.equal(before);
    const { said } = await answerTo(KINDS["chat completions"] as Kind, [...SHARED_KEY, ` of ${PERSONAL.email}`]);
    expect(said).to.equal("*** of [EMAIL]");
    await receiver.waitFor(1);
    const [leak] = (await sealedChanges(workspace, "leakage_detected")).slice(before);
    expect(leak).to.deep.include({ leaked_count: 1, kinds: { email: 1 } });
    const { rows } = await workspace.database.pool.query<{ body: string }>("select body from ledger_entry");
    const written = [...rows.map(({ body }) => body), ...receiver.requests, workspace.logged()].join("\n");
    for (const part of [SHARED_KEY, SHARED_KEY.slice(0, 12), SHARED_KEY.slice(-12)])
      expect(written).not.to.contain(part);
    await receiver.close();
  });
});
