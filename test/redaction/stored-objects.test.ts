import { expect } from "chai";
import { openRedactionWorkspace, type RedactionWorkspace } from "./harness.ts";
import { completion, responseEvents, sends, streams } from "./upstream.ts";

interface Reply {
  readonly id: string;
  readonly output: readonly { readonly id: string; readonly call_id?: string }[];
  readonly previous_response_id?: string;
  readonly metadata?: object;
}

/** Requests that name what the workspace did not make, with the field that the error names. */
const FOREIGN: readonly (readonly [description: string, body: object, param: string])[] = [
  ["another's response", { previous_response_id: "resp_2" }, "previous_response_id"],
  ["a response under a made-up mark", { previous_response_id: `resp_2.${"A".repeat(16)}` }, "previous_response_id"],
  ["a stored conversation", { conversation: "conv_1" }, "conversation"],
  ["a stored conversation, as an object", { conversation: { id: "conv_1" } }, "conversation"],
  ["a stored prompt", { prompt: { id: "pmpt_1" } }, "prompt"],
  ["a stored item", { input: [{ type: "item_reference", id: "msg_2" }] }, "input[0].id"],
  ["stored reasoning", { input: [{ type: "reasoning", id: "rs_1", summary: [] }] }, "input[0].id"],
  [
    "a file",
    { input: [{ role: "user", content: [{ type: "input_text", file_id: "file-1" }] }] },
    "input[0].content[0].file_id",
  ],
  ["vector stores", { tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] }, "tools[0].vector_store_ids"],
  ["a container", { tools: [{ type: "code_interpreter", container: "cntr_1" }] }, "tools[0].container"],
  [
    "files in a container",
    { tools: [{ type: "code_interpreter", container: { type: "auto", file_ids: ["file-1"] } }] },
    "tools[0].container.file_ids",
  ],
  ["sound", { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }, "messages[0].audio.id"],
];

/** Members that only look like references. */
const HARMLESS = {
  model: "m",
  metadata: { file_id: "my-own", id: "order-5" },
  input: [{ type: "reasoning", id: "rs_1", encrypted_content: "abc", summary: [] }],
  tools: [{ type: "function", name: "f", parameters: { properties: { file_id: { type: "string" }, container: {} } } }],
};

describe("what the model's service stores", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-own" });
  });
  after(() => workspace?.close());
  beforeEach(() => {
    workspace.upstream.asked.length = 0;
    workspace.upstream.answer = sends(completion({ content: "fine" }));
  });
  const bodies = () => workspace.upstream.asked.map(({ body }) => JSON.parse(body));

  for (const [description, body, param] of FOREIGN) {
    it(`is not reached by a request that names ${description}.`, async () => {
      const response = await workspace.post("/responses", { model: "m", ...body });
      const { error } = (await response.json()) as { readonly error: Record<string, unknown> };
      expect(error).to.include({ code: "invalid_field", param });
      expect(workspace.upstream.asked).to.deep.equal([]);
    });
  }

  it("is the caller's own affair when the caller brings a key of its own.", async () => {
    const headers = { "x-api-key": workspace.key, authorization: "Bearer sk-caller" };
    for (const [, body] of FOREIGN) {
      if ("messages" in body) continue;
      expect((await workspace.post("/responses", { model: "m", ...body }, headers)).status).to.equal(200);
    }
    workspace.upstream.answer = sends({ id: "resp_1", object: "response", output: [] });
    expect(await (await workspace.post("/responses", HARMLESS, headers)).json()).to.include({ id: "resp_1" });
  });

  it("is reached by the ids of answers, on every process, and only in the same workspace.", async () => {
    const output = [{ type: "function_call", id: "fc_1", call_id: "call_1", name: "f", arguments: '{"id":"x"}' }];
    workspace.upstream.answer = sends({ id: "resp_1", object: "response", metadata: { id: "order-5" }, output });
    const reply = (await (await workspace.post("/responses", HARMLESS)).json()) as Reply;
    expect(bodies()[0]).to.deep.equal(HARMLESS);
    expect(reply.id).to.match(/^resp_1\.[\w-]{16}$/);
    expect(reply.output[0]).to.include({ call_id: "call_1", arguments: '{"id":"x"}' });
    expect(reply.metadata).to.deep.equal({ id: "order-5" });

    const next = {
      model: "m",
      previous_response_id: reply.id,
      input: [{ type: "item_reference", id: reply.output[0]?.id }],
    };
    const other = await workspace.process();
    expect((await other.post("/responses", next)).status).to.equal(200);
    expect(bodies()[1]).to.deep.equal({
      ...next,
      previous_response_id: "resp_1",
      input: [{ type: "item_reference", id: "fc_1" }],
    });

    const elsewhere = await workspace.redaction.storedObjects("other");
    expect(() => elsewhere.open({ previous_response_id: reply.id })).to.throw(
      "names nothing that this workspace created",
    );
  });

  it("has the same ids in the events of an answer as in its whole.", async () => {
    workspace.upstream.answer = streams(responseEvents(["fine"]));
    const text = await (await workspace.post("/responses", { model: "m", input: "x", stream: true })).text();
    const ids = new Set([...text.matchAll(/"(?:id|item_id)":"([^"]+)"/g)].map(([, id = ""]) => id));
    expect(ids.size).to.equal(2);
    for (const id of ids) expect(id).to.match(/^(resp_abc|msg_1)\.[\w-]{16}$/);
  });
});
