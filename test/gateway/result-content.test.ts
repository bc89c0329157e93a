import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { contentOfResponse } from "../../src/gateway/result-content.ts";

const text = (value: string) => ({ type: "text", text: value });
const resource = (value: object) => ({ type: "resource", resource: value as JsonObject });
const contentOf = (result: JsonObject, method = "tools/call", uri?: string) =>
  contentOfResponse({ method, uri }, { jsonrpc: "2.0", id: 1, result });

describe("the content of a result", () => {
  const OWN: readonly (readonly [string, JsonObject, string])[] = [
    ["one text", { content: [text('{"a":"x"}')] }, '{"a":"x"}'],
    ["one text beside an image", { content: [{ type: "image", data: "aa" }, text("x")] }, "x"],
    ["the text of a resource without an address", { content: [resource({ text: "x", mimeType: "text/plain" })] }, "x"],
    ["structured content", { structuredContent: { a: "x" } }, '{"a":"x"}'],
    ["structured content that a text repeats", { content: [text('{"a":1}')], structuredContent: { a: 1 } }, '{"a":1}'],
    [
      "one text beside members that a server leaves null",
      { content: [{ ...text("x"), annotations: null, _meta: null }], structuredContent: null, task: null, _meta: {} },
      "x",
    ],
  ];
  for (const [what, result, content] of OWN)
    it(`has the members of the tool's own result in ${what}.`, async () => {
      expect(await contentOf(result)).to.deep.include({ content, isMixed: false });
    });

  const OTHERS: readonly (readonly [string, JsonObject, string])[] = [
    ["two texts", { content: [text("evil"), text("x")] }, "evil\nx"],
    ["a link", { content: [{ type: "resource_link", uri: "file:///evil" }] }, '{"uri":"file:///evil"}'],
    ["a block of an unknown kind", { content: [{ type: "video", caption: "evil" }] }, '{"caption":"evil"}'],
    ["a block that is a text", { content: ["evil"] }, "evil"],
    ["a text that is none", { content: [{ type: "text", text: { a: "evil" } }] }, '{"a":"evil"}'],
    ["a text with other members", { content: [{ ...text("x"), more: "evil" }] }, 'x\nevil\n{"more":"evil"}'],
    ["content that is no list", { content: "evil" }, "evil"],
    ["an error beside an image", { content: [{ type: "image", data: "aa" }], error: "evil" }, '{"error":"evil"}'],
    ["a result of its own", { result: { a: "evil" } }, '{"result":{"a":"evil"}}'],
    ["a task", { task: { taskId: "1", statusMessage: "evil" } }, '{"statusMessage":"evil"}'],
    ["the form of an earlier protocol", { toolResult: "evil" }, '{"toolResult":"evil"}'],
    ["another member beside a text", { content: [text("x")], more: "evil" }, 'evil\n{"more":"evil"}\nx'],
    [
      "structured content, whose text names a member twice",
      { content: [text('{"a":"evil","a":"x"}')], structuredContent: { a: "x" } },
      'x\n{"a":"x"}\n{"a":"evil","a":"x"}',
    ],
    ["a resource with an address", { content: [resource({ uri: "file:///evil", text: "x" })] }, "x\nfile:///evil\n{"],
    ["a resource of bytes", { content: [resource({ uri: "file:///evil", blob: "aa" })] }, '{"uri":"file:///evil"}'],
  ];
  for (const [what, result, content] of OTHERS)
    it(`holds what a client may read, without members of the tool's own, in ${what}.`, async () => {
      const found = await contentOf(result);
      expect(found?.content.startsWith(content), found?.content).to.equal(true);
      expect(found?.isMixed).to.equal(true);
    });

  it("leaves out the state of a task, and what says how a call goes on.", async () => {
    const state = { taskId: "1", status: "working", createdAt: "2026-01-01", ttlMs: 1, pollInterval: 2 };
    expect(await contentOf({ task: state })).to.equal(undefined);
    expect(await contentOf({ ...state, resultType: "task" })).to.equal(undefined);
    expect(await contentOf(state, "tasks/get")).to.equal(undefined);
    expect(await contentOf({ resultType: "input_required", requestState: "s" })).to.equal(undefined);
    expect(await contentOf({ status: "evil" })).to.deep.include({ content: '{"status":"evil"}' });
  });

  it("is the text of a task and of its result, which may have failed.", async () => {
    const task = { taskId: "1", statusMessage: "done", result: { content: [text("x")], isError: true } };
    const found = await contentOf(task, "tasks/get");
    expect(found).to.deep.include({ content: 'done\n{"statusMessage":"done"}\nx', isError: true, isMixed: true });
  });

  it("has the address of a resource, except where the client asked for it.", async () => {
    const contents = [{ uri: "file:///a", mimeType: "text/plain", text: "x" }];
    expect(await contentOf({ contents }, "resources/read", "file:///a")).to.deep.include({
      content: "x",
      isMixed: false,
    });
    const other = await contentOf({ contents }, "resources/read", "file:///b");
    expect(other).to.deep.include({ content: 'x\nfile:///a\n{"uri":"file:///a"}', isMixed: true });
  });
});
