import { expect } from "chai";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace } from "./harness.ts";
import { chunk, completion, event, sends, streams } from "./upstream.ts";

const { email } = PERSONAL;
const CHAT = "/chat/completions";
const BYTES = Buffer.from(Array.from({ length: 600 }, (_, index) => (index * 151) % 256)).toString("base64");
const PICTURE = `data:image/png;base64,${BYTES.slice(0, 96)}`;

/** Parts of a message that are media, with the member that an error names below `messages[0].content[0]`. */
const MEDIA: readonly (readonly [what: string, part: object, field?: string])[] = [
  ["a typed part", { type: "image_url", image_url: { url: PICTURE } }],
  ["a type in capitals", { type: "Image_URL", image_url: { url: "https://x.example/a.png" } }],
  ["a type in full width", { type: "ｉｍａｇｅ_url", image_url: { url: "https://x.example/a.png" } }],
  ["a type in another spelling", { type: "input-image" }],
  ["a part without a type", { image_url: { url: PICTURE } }, ".image_url"],
  ["a member in capitals", { Image_URL: { URL: "https://x.example/a.png" } }, ".Image_URL"],
  ["a member in camel case", { imageUrl: "https://x.example/a.png" }, ".imageUrl"],
  ["inline data", { inline_data: { mime_type: "image/png", data: "AAAA" } }, ".inline_data"],
  ["inline data in camel case", { inlineData: { mimeType: "image/png", data: "AAAA" } }, ".inlineData"],
  ["a list of images", { images: ["AAAA"] }, ".images"],
  ["a list of images with addresses", { images: [{ url: "https://x.example/a.png" }] }, ".images"],
  ["a source", { source: { type: "base64", media_type: "image/png", data: "AAAA" } }, ".source"],
  ["a source by address", { source: { type: "url", url: "https://x.example/a.png" } }, ".source"],
  ["a source without a type", { source: { data: "AAAA" } }, ".source"],
  ["a media type beside data", { mimeType: "audio/wav", data: "AAAA" }],
  ["a media type beside an address", { any: { media_type: "application/pdf", uri: "https://x.example/a" } }, ".any"],
  ["a file", { file: { file_data: "AAAA" } }, ".file"],
  ["a document", { document: { url: "https://x.example/a.pdf" } }, ".document"],
  ["audio", { input_audio: { data: "AAAA", format: "wav" } }, ".input_audio"],
  ["a video", { video_url: { url: "https://x.example/a.mp4" } }, ".video_url"],
  ["long base64 in any member", { type: "text", note: BYTES }, ".note"],
  ["long base64 in lines", { type: "text", text: BYTES.replace(/.{76}/g, "$&\r\n") }, ".text"],
  ["long base64 of another alphabet", { text: BYTES.replaceAll("+", "-").replaceAll("/", "_") }, ".text"],
  ["long base64 between blanks", { text: ` ${BYTES}\n` }, ".text"],
  ["a `data:` URL in any member", { type: "text", text: PICTURE }, ".text"],
  ["a `data:` URL in capitals", { text: "DATA:IMAGE/PNG;BASE64,AAAA" }, ".text"],
  ["a `data:` URL of text", { text: "data:text/plain,hello" }, ".text"],
  ["a `data:` URL without a type", { text: "data:;charset=utf-8;base64,AAAA" }, ".text"],
  ["a list of such texts", { list: ["a", PICTURE] }, ".list[1]"],
];

/** Parts that look like media and are none. */
const PLAIN: readonly (readonly [what: string, part: object])[] = [
  ["a text", { type: "text", text: "see image.png; data: 5, 6" }],
  ["a digest", { text: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".repeat(2) }],
  ["long words", { text: `https://x.example/${"a-long-path/".repeat(40)}?q=1` }],
  ["a token of three parts", { text: [BYTES.slice(0, 90), BYTES.slice(0, 200), BYTES.slice(0, 80)].join(".") }],
  ["a place of a text", { source: "web", sources: ["a", "b"] }],
  ["a source with an address", { source: { url: "https://x.example/", title: "a page" } }],
  ["bytes of a server", { signature: BYTES, encrypted_content: BYTES, thought_signature: BYTES }],
  ["a count of images", { images: 3, image_tokens: 5, audio: null, file: { name: "a.txt" } }],
];

/** A tool whose arguments are called as media is. */
const TOOL = {
  type: "function",
  function: {
    name: "show",
    parameters: {
      type: "object",
      properties: {
        image: { type: "string", format: "uri" },
        images: { type: "array", items: { type: "string" } },
        source: { type: "object", properties: { data: { type: "string" }, url: { type: "string" } } },
        inline_data: { type: "object", description: "bytes" },
        file: { type: ["string", "null"] },
      },
      required: ["image", "images", "source"],
    },
  },
};

describe("media", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-upstream-key" });
  });
  after(() => workspace?.close());
  beforeEach(async () => {
    workspace.upstream.asked.length = 0;
    workspace.upstream.answer = sends(completion({ content: "fine" }));
    await allow(false);
  });

  const allow = (allowMedia: boolean) =>
    workspace.redaction.putSettings(workspace.caller, {
      restoreValues: false,
      allowMedia,
      disabledKinds: [],
      allow: [],
    });
  const ask = (part: object, more: object = {}) =>
    workspace.post(CHAT, { model: "m", messages: [{ role: "user", content: [part] }], ...more });

  for (const [what, part, field = ""] of MEDIA) {
    it(`is ${what}: refused in a request and an answer, and passed where the workspace allows it.`, async () => {
      const refused = await ask(part);
      const { error } = (await refused.json()) as { error: { code: string; param: string } };
      expect([refused.status, error.code]).to.deep.equal([400, "not_scrubbable"]);
      expect(error.param).to.match(new RegExp(`^messages\\[0\\]\\.content\\[0\\]${field.replace(/[.[\]]/g, "\\$&")}`));
      expect(workspace.upstream.asked).to.deep.equal([]);
      // What a model writes is text, in base64 or not.
      const isText = "text" in part;
      workspace.upstream.answer = sends(completion({ content: [part] }));
      expect((await ask({ type: "text", text: "a" })).status).to.equal(isText ? 200 : 502);
      workspace.upstream.answer = streams([chunk({ parts: [part] }), chunk({}, "stop")]);
      const streamed = await (await ask({ type: "text", text: "a" }, { stream: true })).text();
      expect(streamed.includes("llm_unavailable")).to.equal(!isText);
      workspace.upstream.asked.length = 0;

      await allow(true);
      workspace.upstream.answer = sends(completion({ parts: [{ ...part, note2: email }] }));
      const answer = await ask({ ...part, note2: email });
      expect(answer.status).to.equal(200);
      const [sent] = JSON.parse(workspace.upstream.asked[0]?.body ?? "{}").messages[0].content;
      expect(sent).to.deep.include(part);
      expect(sent.note2).to.match(/^\[EMAIL_1_/);
      const { choices } = (await answer.json()) as { choices: { message: { parts: object[] } }[] };
      expect(choices[0]?.message.parts).to.deep.equal([{ ...part, note2: "[EMAIL]" }]);
    });
  }

  for (const [what, part] of PLAIN) {
    it(`is not ${what}.`, async () => {
      workspace.upstream.answer = sends(completion({ parts: [part] }));
      const answer = await ask(part);
      expect(answer.status, await answer.clone().text()).to.equal(200);
      const [sent] = JSON.parse(workspace.upstream.asked[0]?.body ?? "{}").messages[0].content;
      expect(sent).to.deep.equal(part);
      const { choices } = (await answer.json()) as { choices: { message: { parts: object[] } }[] };
      expect(choices[0]?.message.parts).to.deep.equal([part]);
    });
  }

  it("is no argument of a tool that is called so, and no base64 that a model writes itself.", async () => {
    expect((await ask({ type: "text", text: "a" }, { tools: [TOOL] })).status).to.equal(200);
    const call = { id: "c", type: "function", function: { name: "show", arguments: { image: "a.png", data: BYTES } } };
    workspace.upstream.answer = sends(completion({ content: BYTES, tool_calls: [call] }));
    const answer = await ask({ type: "text", text: "encode it" });
    expect(await answer.text()).to.include(BYTES);
  });

  it("of an answer is refused in every kind of stream, with sound and pictures by any name.", async () => {
    for (const [path, json] of [
      ["/responses", { type: "response.output_item.done", item: { result: BYTES } }],
      ["/responses", { type: "response.audio.delta", delta: "AAAA" }],
      ["/responses", { type: "response.output_item.done", item: { inline_data: { data: "AAAA" } } }],
      [CHAT, { choices: [{ index: 0, delta: { images: [{ image_url: { url: PICTURE } }] } }] }],
      [CHAT, { choices: [{ index: 0, delta: {}, picture: PICTURE }] }],
      [CHAT, { picture: PICTURE }],
    ] as const) {
      workspace.upstream.answer = streams([event(json)]);
      const text = await (await workspace.post(path, { messages: [], stream: true })).text();
      expect(text, JSON.stringify(json)).to.include("llm_unavailable").and.not.to.include("AAAA");
    }
  });

  it("that is allowed hides no value in its texts: not in a `data:` URL of text, and not in base64 outside of a part.", async () => {
    await allow(true);
    const url = `data:text/plain;base64,${Buffer.from(`to ${email}`).toString("base64")}`;
    for (const text of [`data:text/plain,${encodeURIComponent(email)}`, url]) {
      expect((await ask({ type: "text", text })).status, text).to.equal(400);
      expect((await ask({ type: "image_url", image_url: { url: text } })).status, text).to.equal(400);
    }
    const glued = `${BYTES.slice(0, 300)}/4111111111111111/${BYTES.slice(0, 30)}`;
    await ask({ type: "text", text: glued });
    expect(workspace.upstream.asked.at(-1)?.body).not.to.include("4111111111111111");
  });
});
