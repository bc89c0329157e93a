import { expect } from "chai";
import fc from "fast-check";
import { createSseReader, type SseItem } from "../../src/redaction/proxy/event-response.ts";
import { cut, responseOptions, saidIn, scrubbed } from "./event-harness.ts";
import { PERSONAL } from "./harness.ts";
import { chatEvents, chunk, event, responseEvents } from "./upstream.ts";

const { email, card, name } = PERSONAL;
const CHAT = "/chat/completions";
const TEXT = `Ask ${name} – ${email} or ünïcode 💳 ${card}. Bye`;
const SCRUBBED = "Ask [PERSON_NAME] – [EMAIL] or ünïcode 💳 [PAYMENT_CARD]. Bye";
const LEAKED = { person_name: 1, email: 1, payment_card: 1 };
const places = fc.array(fc.nat(10_000), { maxLength: 60 });

const toolCall = (fragment: object, index = 0): string => chunk({ tool_calls: [{ index, ...fragment }] });

describe("events of a chat", () => {
  it("never let a value out, wherever the model, the events and the packets are cut.", async () => {
    await fc.assert(
      fc.asyncProperty(places, places, async (words, packets) => {
        const bytes = Buffer.from(chatEvents(cut(TEXT, words)).join(""));
        const { leaked, ...rest } = await scrubbed(CHAT, cut(bytes, packets));
        expect(saidIn(rest as never)).to.deep.equal({ 0: SCRUBBED, "0 finished": "stop" });
        expect(leaked).to.deep.equal(LEAKED);
        for (const value of Object.values(PERSONAL)) expect(rest.text).not.to.include(value);
      }),
      { numRuns: 300 },
    );
  });

  it("come byte by byte as well, with carriage returns, comments and data of several lines.", async () => {
    const [first = "", ...more] = chatEvents([...TEXT]);
    const lines = `: hello ${email}\r\n\r\n${[first, ...more].join("").replaceAll("\n", "\r\n")}`;
    const folded = lines.replace('","object"', '",\r\ndata: "object"');
    const bytes = Buffer.from(`\ufeff${folded}`);
    const { text, ...rest } = await scrubbed(
      CHAT,
      [...bytes].map((byte) => Uint8Array.of(byte)),
    );
    expect(saidIn({ text, ...rest })["0"]).to.equal(SCRUBBED);
    expect(text).to.match(/^: hello \[EMAIL\]\n\n/);
  });

  it("keep what is held back before the finish reason, and usage and the end as they were.", async () => {
    const { events } = await scrubbed(CHAT, chatEvents(["mail ", "jane.roe@corp", "-mail.org"]));
    const said = events.map(({ json }) => (json === "[DONE]" ? json : (json as Chunk).choices[0]?.delta?.content));
    expect(said.slice(-4)).to.deep.equal(["[EMAIL]", undefined, undefined, "[DONE]"]);
    expect((events.at(-3)?.json as Chunk | undefined)?.choices[0]?.finish_reason).to.equal("stop");
    expect(events.at(-2)?.json).to.deep.include({ usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } });
  });

  it("let text out as soon as it can be no part of a value.", async () => {
    const { events } = await scrubbed(CHAT, chatEvents(["Hello", " there", " friend", " of mine"]).slice(0, 4));
    expect(events.map(({ json }) => (json as Chunk).choices[0]?.delta?.content).join("")).to.match(/^Hello there /);
  });

  it("scrub each choice and each call by itself.", async () => {
    const pieces = [
      chunk({ content: "jane.roe@" }, null, 0),
      chunk({ content: "corp-mail" }, null, 1),
      chunk({ content: "corp-mail.org" }, null, 0),
      chunk({ content: ".org" }, null, 1),
      toolCall({ id: "call_1", type: "function", function: { name: "f", arguments: "" } }),
      toolCall({ id: "call_2", type: "function", function: { name: "g", arguments: "" } }, 1),
      toolCall({ function: { arguments: '{"to":"jane.roe' } }),
      toolCall({ function: { arguments: '{"n":41111111' } }, 1),
      toolCall({ function: { arguments: '\\u0040corp-mail.org"}' } }),
      toolCall({ function: { arguments: '11111111,"ok":true}' } }, 1),
      chunk({}, "stop", 1),
      chunk({}, "tool_calls", 0),
    ];
    expect(saidIn(await scrubbed(CHAT, pieces))).to.deep.equal({
      0: "[EMAIL]",
      "0 finished": "tool_calls",
      1: "corp-mail.org",
      "1 finished": "stop",
      "0 call 0": '{"to":"[EMAIL]"}',
      "0 call 1": '{"n":"[PAYMENT_CARD]","ok":true}',
    });
  });

  it("scrub members that nobody knows, and legacy completions.", async () => {
    const pieces = [
      chunk({ reasoning_content: "it is jane.roe@" }),
      chunk({ reasoning_content: "corp-mail.org" }, "stop"),
    ];
    const { text } = await scrubbed(CHAT, pieces);
    expect(text).to.include("[EMAIL]").and.not.to.include("corp-mail");
    const legacy = ["to jane.roe@", "corp-mail.org"].map((part) =>
      event({ choices: [{ index: 0, text: part, finish_reason: null }] }),
    );
    const { text: completed } = await scrubbed("/completions", [...legacy, "data: [DONE]\n\n"]);
    expect(completed).to.include("[EMAIL]").and.not.to.include("corp-mail");
  });

  it("put placeholders back, split over events, if the workspace allows it.", async () => {
    const options = responseOptions({ restore: true });
    const placeholder = await options.placeholders.hide(email);
    const { events } = await scrubbed(CHAT, chatEvents([...`to ${placeholder}, not ${card}`]), options);
    const said = saidIn({ events } as never);
    expect(said["0"]).to.equal(`to ${email}, not [PAYMENT_CARD]`);
  });

  it("end with an error, and what is held back is lost, when the stream breaks off or cannot be scrubbed.", async () => {
    const broken = [
      [chunk({ content: "jane.roe@" }), "data: no json\n\n"],
      [chunk({ content: "jane.roe@" }), chunk({ audio: { data: "AAAA" } })],
      [chunk({ content: "jane.roe@" }), event(["a list"])],
    ];
    for (const pieces of broken) {
      const { isBroken, events, text } = await scrubbed(CHAT, pieces);
      expect(isBroken).to.equal(true);
      expect(events.at(-1)?.json).to.have.nested.property("error.code", "llm_unavailable");
      expect(text).not.to.include("jane");
    }
  });

  it("give out what is held back when the stream ends without a finish reason.", async () => {
    const { events } = await scrubbed(CHAT, [chunk({ content: "jane.roe@corp-mail.org" })]);
    expect(saidIn({ events } as never)["0"]).to.equal("[EMAIL]");
  });

  it("change nothing for everyone by a member called __proto__.", async () => {
    await scrubbed(CHAT, [`data: {"choices":[{"index":0,"delta":{"__proto__":{"x":"jane.roe@corp-mail.org"}}}]}\n\n`]);
    expect(({} as { x?: string }).x).to.equal(undefined);
  });
});

interface Chunk {
  readonly choices: readonly {
    readonly delta?: { readonly content?: string };
    readonly finish_reason: string | null;
  }[];
}

describe("events of responses", () => {
  it("never let a value out, wherever they are cut, and say the same in deltas and in whole texts.", async () => {
    await fc.assert(
      fc.asyncProperty(places, places, async (words, packets) => {
        const bytes = Buffer.from(responseEvents(cut(TEXT, words)).join(""));
        const { events, text, leaked, responseIds } = await scrubbed("/responses", cut(bytes, packets));
        const all = events.map(({ json }) => json as ResponseEvent);
        expect(all.map(({ sequence_number }) => sequence_number)).to.deep.equal(all.map((_, index) => index));
        const deltas = all.filter(({ type }) => type === "response.output_text.delta").map(({ delta }) => delta);
        expect(deltas.join("")).to.equal(SCRUBBED);
        expect(all.find(({ type }) => type === "response.output_text.done")?.text).to.equal(SCRUBBED);
        expect(all.at(-1)?.response?.output[0]?.content[0]?.text).to.equal(SCRUBBED);
        expect(leaked).to.deep.equal(LEAKED);
        expect(responseIds).to.include("resp_abc");
        for (const value of Object.values(PERSONAL)) expect(text).not.to.include(value);
      }),
      { numRuns: 200 },
    );
  });

  it("scrub arguments by what they say, and the summary of reasoning.", async () => {
    const place = { item_id: "fc_1", output_index: 0 };
    const whole = '{"to":"jane.roe\\u0040corp-mail.org"}';
    const pieces = [
      { type: "response.function_call_arguments.delta", ...place, delta: whole.slice(0, 20) },
      { type: "response.function_call_arguments.delta", ...place, delta: whole.slice(20) },
      { type: "response.function_call_arguments.done", ...place, arguments: whole },
      { type: "response.reasoning_summary_text.delta", ...place, summary_index: 0, delta: email.slice(0, 5) },
      { type: "response.reasoning_summary_text.delta", ...place, summary_index: 0, delta: email.slice(5) },
    ];
    const { events } = await scrubbed(
      "/responses",
      pieces.map((each) => event(each, each.type)),
    );
    const all = events.map(({ json }) => json as ResponseEvent & { arguments?: string });
    const said = (type: string): string =>
      all
        .filter((each) => each.type === type)
        .map(({ delta }) => delta)
        .join("");
    expect(said("response.function_call_arguments.delta")).to.equal('{"to":"[EMAIL]"}');
    expect(all.find((each) => each.arguments !== undefined)?.arguments).to.equal('{"to":"[EMAIL]"}');
    expect(said("response.reasoning_summary_text.delta")).to.equal("[EMAIL]");
  });

  it("with sound or images are refused.", async () => {
    for (const type of ["response.audio.delta", "response.image_generation_call.partial_image"]) {
      expect((await scrubbed("/responses", [event({ type, delta: "AAAA" })])).isBroken, type).to.equal(true);
    }
  });
});

interface ResponseEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly delta?: string;
  readonly text?: string;
  readonly response?: { readonly output: readonly { readonly content: readonly { readonly text: string }[] }[] };
}

describe("the reader of events", () => {
  const CASES: readonly { readonly text: string; readonly want: readonly SseItem[] }[] = [
    { text: "data: a\n\n", want: [{ name: undefined, data: "a" }] },
    { text: "data:a\rdata:  b\r\r", want: [{ name: undefined, data: "a\n b" }] },
    { text: "event: x\r\ndata\r\n\r\n", want: [{ name: "x", data: "" }] },
    { text: ": note\n\ndata: a", want: [{ comment: "note" }, { name: undefined, data: "a" }] },
    { text: "id: 1\nretry: 5\nunknown: x\n\n\n", want: [] },
    { text: "event: Zebulon Quist\ndata: a\n\n", want: [{ name: undefined, data: "a" }] },
  ];
  for (const { text, want } of CASES) {
    it(`reads ${JSON.stringify(text)} however it is cut.`, () => {
      fc.assert(
        fc.property(places, (at) => {
          const reader = createSseReader();
          const events = [...cut(text, at).flatMap((piece) => reader.push(piece)), ...reader.end()];
          expect(events).to.deep.equal(want);
        }),
      );
    });
  }
});
