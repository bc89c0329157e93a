import { expect } from "chai";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace, sealedChanges } from "./harness.ts";
import { completion, sends } from "./upstream.ts";

const { email, card, name } = PERSONAL;

describe("the redaction proxy", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-upstream-key" });
    await workspace.redaction.values.add(workspace.caller, [{ kind: "person_name", value: name }]);
  });
  after(() => workspace?.close());
  beforeEach(() => {
    workspace.upstream.asked.length = 0;
    workspace.upstream.answer = sends(completion({ content: "fine" }));
  });

  it("hides every personal value of a chat on the way up, each by one placeholder.", async () => {
    await workspace.post("/chat/completions", {
      model: "test-1",
      user: email,
      messages: [
        { role: "system", content: `You write to ${name}.` },
        { role: "user", name: "quist", content: [{ type: "text", text: `${name} has ${email}` }] },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "call_1",
              type: "function",
              function: { name: "pay", arguments: JSON.stringify({ card, to: name }) },
            },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: JSON.stringify({ holder: "Zebulon\u0020Quist", ok: true }) },
      ],
    });
    const [asked] = workspace.upstream.asked;
    expect(asked?.path).to.equal("/v1/chat/completions");
    for (const value of Object.values(PERSONAL)) expect(asked?.body).not.to.include(value);
    const body = JSON.parse(asked?.body ?? "{}");
    const [placeholder] = /\[PERSON_\d+_[A-Z]+\]/.exec(body.messages[0].content) ?? [];
    expect(body.messages[1].content[0].text).to.include(placeholder);
    expect(JSON.parse(body.messages[2].tool_calls[0].function.arguments).to).to.equal(placeholder);
    expect(JSON.parse(body.messages[3].content)).to.deep.equal({ holder: placeholder, ok: true });
    expect(body.messages[2].tool_calls[0].id).to.equal("call_1");
  });

  it("hides values in members that are called as something every object inherits, and keeps these.", async () => {
    const args = JSON.parse(`{"__proto__":{"to":"${email}"},"constructor":"${email}"}`);
    const call = { id: "c", type: "function", function: { name: "pay", arguments: JSON.stringify(args) } };
    const metadata = JSON.parse(`{"__proto__":"${email}"}`);
    const messages = [{ role: "assistant", content: null, tool_calls: [call] }];
    await workspace.post("/chat/completions", { model: "test-1", messages, metadata });
    const sent = workspace.upstream.asked[0]?.body ?? "";
    expect(sent).not.to.include(email);
    const body = JSON.parse(sent);
    const given = JSON.parse(body.messages[0].tool_calls[0].function.arguments);
    expect(Object.keys(given)).to.deep.equal(["__proto__", "constructor"]);
    expect(Object.entries(given).join()).to.match(/^__proto__,.*constructor,\[EMAIL_\d+_[A-Z]+\]$/);
    expect(Object.entries(body.metadata).join()).to.match(/^__proto__,\[EMAIL_\d+_[A-Z]+\]$/);
  });

  it("scrubs what the model says of itself, counts it, and seals that it did.", async () => {
    workspace.upstream.answer = sends(completion({ content: `ask ${name} at ${email}` }));
    const response = await workspace.post("/chat/completions", { model: "test-1", messages: [] });
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    expect(choices[0]?.message.content).to.equal("ask [PERSON_NAME] at [EMAIL]");
    const [sealed] = await sealedChanges(workspace, "leakage_detected");
    expect(sealed).to.include({ leaked_count: 2, path: "/chat/completions", model: "test-1", agent_id: null });
    expect(sealed?.kinds).to.deep.equal({ email: 1, person_name: 1 });
    const metrics = await workspace.metrics();
    expect(metrics).to.include('acp_redaction_leaked_total{kind="email"} 1');
    expect(metrics).to.include('acp_redaction_requests_total{path="/chat/completions",status="200"}');
  });

  it("gives placeholders back as the caller's own values where the workspace allows it, and nothing else.", async () => {
    const settings = { restoreValues: true, allowMedia: false, disabledKinds: [], allow: [] };
    await workspace.redaction.putSettings(workspace.caller, settings);
    workspace.upstream.answer = (asked, response) => {
      const said = /\[EMAIL_\d+_[A-Z]+\]/.exec(asked.body)?.[0];
      const call = { id: "call_1", type: "function", function: { name: "send", arguments: `{"to":"${said}"}` } };
      sends(completion({ content: `to ${said}, not ${name}`, tool_calls: [call] }))(asked, response);
    };
    const body = { model: "test-1", messages: [{ role: "user", content: email }] };
    const { message } = ((await (await workspace.post("/chat/completions", body)).json()) as Chat).choices[0];
    expect(message.content).to.equal(`to ${email}, not [PERSON_NAME]`);
    expect(message.tool_calls?.[0]?.function.arguments).to.equal(`{"to":"${email}"}`);
    await workspace.redaction.putSettings(workspace.caller, { ...settings, restoreValues: false });
    const { message: hidden } = ((await (await workspace.post("/chat/completions", body)).json()) as Chat).choices[0];
    expect(hidden.content).to.match(/^to \[EMAIL_1_[A-Z]+\], not \[PERSON_NAME\]$/);
  });

  it("remembers placeholders while a conversation goes on.", async () => {
    const headers = { "x-conversation-id": "c-1" };
    const body = { model: "test-1", messages: [{ role: "user", content: email }] };
    for (const each of [headers, headers, {}]) await workspace.post("/chat/completions", body, each);
    const [first, second, third] = workspace.upstream.asked.map((asked) => asked.body);
    expect(first).to.equal(second).and.not.to.equal(third);
  });

  it("goes on with the placeholders of the answer that a request of `responses` names.", async () => {
    workspace.upstream.answer = sends({ id: "resp_1", object: "response", output: [] });
    const said = await workspace.post("/responses", { model: "test-1", input: email });
    const { id } = (await said.json()) as { readonly id: string };
    await workspace.post("/responses", { model: "test-1", input: email, previous_response_id: id });
    const [first, second] = workspace.upstream.asked.map((asked) => JSON.parse(asked.body).input);
    expect(first)
      .to.equal(second)
      .and.to.match(/^\[EMAIL_1_/);
  });

  it("hides the input of embeddings and leaves the numbers as they are.", async () => {
    const answer = { object: "list", data: [{ object: "embedding", index: 0, embedding: "AACAPwAAAEA=" }] };
    workspace.upstream.answer = sends(answer);
    const response = await workspace.post("/embeddings", { model: "e-1", input: [email, name] });
    expect(await response.json()).to.deep.equal(answer);
    expect(workspace.upstream.asked[0]?.body).not.to.include(email).and.not.to.include(name);
  });

  it("leaves log probabilities out, which say the text again token by token.", async () => {
    const answer = completion({ content: email }) as { choices: { logprobs: object | null }[] };
    for (const choice of answer.choices)
      choice.logprobs = { content: [{ token: email, bytes: [...Buffer.from(email)] }] };
    workspace.upstream.answer = sends(answer);
    const text = await (await workspace.post("/chat/completions", { model: "test-1", messages: [] })).text();
    expect(text).to.include('"logprobs":null').and.not.to.include(email);
  });

  it("passes other paths, with their text scrubbed both ways.", async () => {
    workspace.upstream.answer = sends({ object: "list", data: [{ id: "test-1", owned_by: name }] });
    const headers = { authorization: `Bearer ${workspace.key}` };
    const models = await fetch(`${workspace.baseUrl}/models`, { headers });
    expect(await models.json()).to.deep.equal({ object: "list", data: [{ id: "test-1", owned_by: "[PERSON_NAME]" }] });
    expect(workspace.upstream.asked[0]).to.include({ method: "GET", path: "/v1/models", body: "" });
    await workspace.post("/moderations", { input: [name], metadata: { [email]: 1 } });
    expect(workspace.upstream.asked[1]?.body).not.to.include(name).and.not.to.include(email);
  });

  it("finds values that escapes hide, and puts back none that breaks the JSON around it.", async () => {
    await workspace.redaction.values.add(workspace.caller, [{ kind: "person_name", value: 'Ann "Ace" Ory\u00e9' }]);
    const settings = { restoreValues: true, allowMedia: false, disabledKinds: [], allow: [] };
    await workspace.redaction.putSettings(workspace.caller, settings);
    workspace.upstream.answer = (asked, response) => {
      const said = JSON.parse(JSON.parse(asked.body).messages[0].content).who;
      const call = {
        id: "c",
        type: "function",
        function: { name: "f", arguments: `{"who":"${said}","x":"Zebulon\\u0020Quist"}` },
      };
      sends(completion({ content: null, tool_calls: [call] }))(asked, response);
    };
    const content = '{"who":"Ann \\"Ace\\" Ory\\u00e9"}';
    const response = await workspace.post("/chat/completions", {
      model: "test-1",
      messages: [{ role: "tool", content }],
    });
    const { message } = ((await response.json()) as Chat).choices[0];
    expect(JSON.parse(message.tool_calls?.[0]?.function.arguments ?? "")).to.deep.equal({
      who: 'Ann "Ace" Ory\u00e9',
      x: "[PERSON_NAME]",
    });
    await workspace.redaction.putSettings(workspace.caller, { ...settings, restoreValues: false });
  });

  it("says nothing personal in its log, its errors and its database.", async () => {
    workspace.upstream.answer = sends({ error: { message: `no ${name}, ${email}: sk-upstream-key`, type: "x" } }, 400);
    const response = await workspace.post("/chat/completions", {
      model: name,
      messages: [{ role: "user", content: card }],
    });
    expect(response.status).to.equal(400);
    expect(await response.json()).to.deep.equal({
      error: { message: "no [PERSON_NAME], [EMAIL]: ***", type: "x" },
    });
    await workspace.post("/chat/completions", `{"model": "${email}", ${card}}`);
    const dump = await databaseDump(workspace);
    for (const value of Object.values(PERSONAL)) {
      expect(workspace.logged()).not.to.include(value);
      for (const form of formsOf(value)) expect(dump).not.to.include(form);
    }
  });
});

interface Chat {
  readonly choices: readonly [
    {
      readonly message: {
        readonly content: string;
        readonly tool_calls?: readonly { readonly function: { readonly arguments: string } }[];
      };
    },
  ];
}

/** A value as text, as hexadecimal bytes and as base64: as a dump would show it. */
const formsOf = (value: string): string[] => [
  value,
  Buffer.from(value).toString("hex"),
  Buffer.from(value).toString("base64").slice(0, -4),
];

async function databaseDump({ database: { pool } }: RedactionWorkspace): Promise<string> {
  const { rows: tables } = await pool.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'public'",
  );
  const parts = tables.map(async ({ name: table }) => {
    const { rows } = await pool.query<{ text: string }>(`select t::text as text from ${table} t`);
    return rows.map(({ text }) => text).join("\n");
  });
  return (await Promise.all(parts)).join("\n");
}
