import { expect } from "chai";
import { createPlaceholders } from "../../src/redaction/text/placeholders.ts";
import { compileScrubber } from "../../src/redaction/text/scrubber.ts";
import type { RegisteredValue } from "../../src/text/personal-kinds.ts";
import { responseOptions, scrubbed } from "./event-harness.ts";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, sealedChanges } from "./harness.ts";
import { chunk, completion, event, sends, streams } from "./upstream.ts";

const { email, card, name } = PERSONAL;
const CARD = card.replaceAll(" ", "");
/** Base64 of forty characters and more, with a card's number in it. */
const SIGNATURE = `abcdEFGH/${CARD}/abcdefghijklmn==`;
/** Values that a workspace registers: also words and numbers of the protocol, which people may be called and have. */
const REGISTERED: readonly RegisteredValue[] = [
  ...[name, "Max", "Stop", "User", "Text", "Delta"].map((value) => ({ kind: "person_name", value }) as const),
  ...["12", "123456"].map((value) => ({ kind: "account_number", value }) as const),
];
/** Every part of a value that must not arrive. */
const SECRETS = [email, card, CARD, name, "Quist", "corp-mail"];

/** Messages that hold a value where one would not look for it, each with what they become; undefined for `SCRUBBED`. */
const MESSAGES: readonly (readonly [place: string, message: object, shown?: object])[] = [
  ["a number", { n: 4111111111111111 }, { n: "[PAYMENT_CARD]" }],
  ["a number in a list", { list: [1, 4111111111111111] }, { list: [1, "[PAYMENT_CARD]"] }],
  ["the name of a member", { [CARD]: 1 }, { "[PAYMENT_CARD]": 1 }],
  ["a name that is no word", { [`to ${name}`]: { [email]: true } }, { "to [PERSON_NAME]": { "[EMAIL]": true } }],
  ["an id", { id: `call_${CARD}` }, { id: "call_[PAYMENT_CARD]" }],
  ["a call's id", { tool_call_id: CARD }, { tool_call_id: "[PAYMENT_CARD]" }],
  ["a role", { role: `assistant/${CARD}` }, { role: "assistant/[PAYMENT_CARD]" }],
  ["a status", { status: `x.${CARD}` }, { status: "x.[PAYMENT_CARD]" }],
  ["a signature", { signature: SIGNATURE }, { signature: "abcdEFGH/[PAYMENT_CARD]/abcdefghijklmn==" }],
  ["encrypted content", { encrypted_content: SIGNATURE }],
  ["obfuscation", { obfuscation: `${SIGNATURE}${SIGNATURE}` }],
  ["a thought's signature", { thought_signature: SIGNATURE }],
  ["arguments as an object", { arguments: { to: email, n: 4111111111111111 } }],
  ["a name of an argument", { arguments: { [CARD]: { [name]: [email] } } }],
  [
    "a word among arguments",
    { arguments: { id: `a.${CARD}`, model: `b:${CARD}`, type: CARD, index: 4111111111111111 } },
  ],
  ["metadata", { metadata: { status: CARD, Zebulon: name } }],
  ["input of a tool", { input: { role: `x/${CARD}` } }],
  ["an embedding that is text", { embedding: email }, { embedding: "[EMAIL]" }],
  ["an embedding that is digits", { embedding: CARD }, { embedding: "[PAYMENT_CARD]" }],
  ["a number of an embedding", { embedding: [0.5, 4111111111111111] }, { embedding: [0.5, "[PAYMENT_CARD]"] }],
  ["a text of an embedding", { embedding: [0.5, email] }, { embedding: [0.5, "[EMAIL]"] }],
  ["a count of tokens", { usage: { total_tokens: 4111111111111111 } }, { usage: { total_tokens: "[PAYMENT_CARD]" } }],
  ["a time", { created_at: 4111111111111111 }, { created_at: "[PAYMENT_CARD]" }],
  ["an index", { index: 4111111111111111 }, { index: "[PAYMENT_CARD]" }],
  ["a member of the protocol's names", { ["__proto__"]: email, constructor: { prototype: name } }],
];

/** Messages that stay as they are: what clients of the protocol need. */
const KEPT: readonly (readonly [what: string, message: object])[] = [
  ["ids", { id: "chatcmpl-8fG5hKq2", tool_call_id: "call_abc123", previous_response_id: "resp_68c9e1a4b0d8819f" }],
  ["words", { object: "chat.completion.chunk", type: "function_call", role: "assistant", status: "in_progress" }],
  ["reasons", { finish_reason: "max_tokens", service_tier: "default" }],
  ["a model", { model: "gpt-4o-2024-08-06", system_fingerprint: "fp_44709d6fcb" }],
  [
    "numbers",
    { created: 1_741_570_283, index: 0, usage: { prompt_tokens: 12, total_tokens: 123_456 }, temperature: 0.7 },
  ],
  ["embeddings", { embedding: [0.0123456789, -12.5, 0.4111111111111111, 127], index: 3 }],
  ["an embedding in base64", { embedding: base64Of(256) }],
  ["bytes of a server", { signature: bytesOf(400), encrypted_content: bytesOf(4_000), thought_signature: bytesOf(96) }],
];

function base64Of(count: number): string {
  const floats = Float32Array.from({ length: count }, (_, index) => Math.sin(index * 12.9898) / 8);
  return Buffer.from(floats.buffer).toString("base64");
}

/** Bytes without a pattern, in base64. */
function bytesOf(count: number): string {
  let state = 12_345;
  const bytes = Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 16) & 0xff;
  });
  return Buffer.from(bytes).toString("base64");
}

const assertHidden = (text: string): void => {
  for (const secret of SECRETS) expect(text).not.to.include(secret);
};

describe("an answer of a model", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-upstream-key" });
    await workspace.redaction.values.add(workspace.caller, REGISTERED);
  });
  after(() => workspace?.close());

  const whole = async (message: object, path = "/chat/completions"): Promise<string> => {
    workspace.upstream.answer = sends(completion(message));
    return (await workspace.post(path, { model: "m", messages: [] })).text();
  };
  const streamed = async (pieces: readonly string[], path = "/chat/completions"): Promise<string> => {
    workspace.upstream.answer = streams(pieces);
    return (await workspace.post(path, { model: "m", messages: [], stream: true })).text();
  };
  const messageIn = (text: string) => (JSON.parse(text) as { choices: { message: object }[] }).choices[0]?.message;

  for (const [place, message, shown] of MESSAGES) {
    it(`has no value left in ${place}, whole and in each kind of stream.`, async () => {
      const text = await whole(message);
      assertHidden(text);
      if (shown !== undefined) expect(messageIn(text)).to.deep.include(shown);
      assertHidden(await streamed([chunk(message as never), chunk({}, "stop"), "data: [DONE]\n\n"]));
      assertHidden(
        await streamed([event({ ...message, choices: [] }), event({ choices: [{ index: 0, ...message }] })]),
      );
      const item = { type: "response.output_item.done", item: message, output_index: 0 };
      const delta = { type: "response.output_text.delta", delta: "x", ...message };
      assertHidden(await streamed([event(item, item.type), event(delta, "x")], "/responses"));
    });
  }

  for (const [what, message] of KEPT) {
    it(`keeps ${what} as the service wrote them, whole and streamed.`, async () => {
      expect(messageIn(await whole(message))).to.deep.equal({ role: "assistant", ...message });
      const item = { type: "response.output_item.done", item: message, output_index: 12, sequence_number: 0 };
      const scrubber = compileScrubber({ registered: REGISTERED, allow: [] });
      const options = responseOptions({ scrubber, placeholders: createPlaceholders({ scrubber }) });
      const { text } = await scrubbed("/responses", [event(item, item.type)], options);
      expect(text).to.equal(event(item, item.type));
    });
  }

  it("has no value in the name of an event, a header, a comment or an error.", async () => {
    for (const said of [CARD, "Zebulon.4111111111111111", `a:${CARD}`]) {
      const text = await streamed([`event: ${said}\ndata: {"choices":[]}\n\n`, `event: ${said}\ndata: [DONE]\n\n`]);
      assertHidden(text);
      expect(text).to.include("[DONE]");
      assertHidden(await streamed([event({ type: said, text: "x" }, said)], "/responses"));
    }
    expect(await streamed([event({ choices: [] }, "response.output_text.delta")])).to.include("output_text.delta");
    workspace.upstream.answer = sends({}, 200, {
      "openai-model": email,
      "x-ratelimit-reset": "12ms",
      [`x-ratelimit-${CARD}`]: "1",
      "x-ratelimit-limit": CARD,
    });
    const { headers } = await workspace.post("/chat/completions", { messages: [] });
    expect([...headers.keys()].filter((each) => /openai|ratelimit/.test(each))).to.deep.equal(["x-ratelimit-reset"]);
    workspace.upstream.answer = sends({ error: { code: CARD, param: email, type: name } }, 400);
    assertHidden(await (await workspace.post("/chat/completions", { messages: [] })).text());
  });

  it("counts what was scrubbed there as leaked.", async () => {
    const before = (await sealedChanges(workspace, "leakage_detected")).length;
    await whole({ id: `call_${CARD}`, arguments: { [email]: 4111111111111111 } });
    await streamed([`event: ${CARD}\ndata: {"choices":[]}\n\n`]);
    const sealed = (await sealedChanges(workspace, "leakage_detected")).slice(before);
    expect(sealed.map(({ kinds }) => kinds)).to.deep.equal([{ email: 1, payment_card: 2 }, { payment_card: 1 }]);
  });

  it("gives placeholders back in ids, names and numbers' places too, where the workspace allows it.", async () => {
    const settings = { restoreValues: true, allowMedia: false, disabledKinds: [], allow: [] };
    await workspace.redaction.putSettings(workspace.caller, settings);
    workspace.upstream.answer = (asked, response) => {
      const said = /\[EMAIL_\d+_[A-Z]+\]/.exec(asked.body)?.[0] ?? "";
      const args = { [said]: [said] };
      sends(completion({ id: said, arguments: args, n: said }))(asked, response);
    };
    const answer = await workspace.post("/chat/completions", { messages: [{ role: "user", content: email }] });
    expect(messageIn(await answer.text())).to.deep.include({ id: email, arguments: { [email]: [email] }, n: email });
    await workspace.redaction.putSettings(workspace.caller, { ...settings, restoreValues: false });
  });
});

describe("pieces of an answer", () => {
  it("have no value left in members of an object that they bring bit by bit, nor in names and places of these.", async () => {
    const pieces = ["jane.roe@", "corp-mail", ".org"].map((text) =>
      chunk({ arguments: { [email]: { list: [{ index: 4111111111111111, text }] } } }),
    );
    const { text, events } = await scrubbed("/chat/completions", [...pieces, chunk({}, "stop")]);
    assertHidden(text);
    const said = events.flatMap(({ json }) => (json as Objects).choices[0]?.delta?.arguments?.["[EMAIL]"]?.list ?? []);
    expect(said.map((item) => item.text).join("")).to.equal("[EMAIL]");
  });

  it("are refused where a choice is no object, or what it adds is none.", async () => {
    for (const choice of [email, [email], { index: 0, delta: email }, { index: 0, delta: [email] }]) {
      const { text, isBroken } = await scrubbed("/chat/completions", [event({ choices: [choice] })]);
      expect(isBroken, JSON.stringify(choice)).to.equal(true);
      assertHidden(text);
    }
  });
});

interface Objects {
  readonly choices: readonly {
    readonly delta?: {
      readonly arguments?: { readonly [name: string]: { readonly list: readonly { text?: string }[] } };
    };
  }[];
}

describe("pieces of a name or an id", () => {
  const toolCall = (fragment: object): string => chunk({ tool_calls: [{ index: 0, ...fragment }] });

  it("come as they are, also where each event repeats the id.", async () => {
    const pieces = [
      toolCall({ id: "call_1", function: { name: "get_" } }),
      toolCall({ id: "call_1", function: { name: "weather" } }),
      chunk({}, "tool_calls"),
    ];
    const { events, isBroken } = await scrubbed("/chat/completions", pieces);
    const calls = events.flatMap(({ json }) => (json as Calls).choices[0]?.delta.tool_calls ?? []);
    expect(calls.map(({ id, function: { name: part } }) => [id, part])).to.deep.equal([
      ["call_1", "get_"],
      ["call_1", "weather"],
    ]);
    expect(isBroken).to.equal(false);
  });

  it("break the stream off when they make a value together.", async () => {
    for (const member of ["id", "name", "role", "signature"]) {
      const pieces = ["a 4111 1111", " 1111", " 1111", "."].map((part) => chunk({ [member]: part } as never));
      const { text, isBroken } = await scrubbed("/chat/completions", pieces);
      expect(isBroken, member).to.equal(true);
      expect(text, member).not.to.match(/1111.*1111.*1111/s);
    }
  });
});

interface Calls {
  readonly choices: readonly {
    readonly delta: { readonly tool_calls?: readonly { readonly id: string; readonly function: { name: string } }[] };
  }[];
}
