import { expect } from "chai";
import { createTargets } from "../../src/webhook/target.ts";
import { openRedactionWorkspace, type RedactionWorkspace } from "./harness.ts";
import { completion, sends, startUpstream, type Upstream } from "./upstream.ts";

const PLAIN = { restoreValues: false, allowMedia: false, disabledKinds: [], allow: [] };
const SHARED_KEY = "sk-shared-account-key";
const OWN_KEY = 'sk-own-"account"\\key';
const ASK = { model: "test-1", messages: [{ role: "user", content: "hi" }] };

/** What a promise rejects with, as one text. */
const refusal = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "nothing",
    (error: Error & { violations?: readonly { field: string }[] }) =>
      `${error.violations?.[0]?.field ?? ""} ${error.message}`,
  );

describe("a model's service of a workspace's own", () => {
  let workspace: RedactionWorkspace;
  let own: Upstream;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: SHARED_KEY });
    own = await startUpstream(sends(completion({ content: `your key is ${OWN_KEY}` })));
  });
  after(async () => {
    await workspace?.close();
    await own?.close();
  });
  beforeEach(() => {
    own.asked.length = 0;
    workspace.upstream.asked.length = 0;
  });

  const put = (over: object) => workspace.redaction.putSettings(workspace.caller, { ...PLAIN, ...over });
  const ask = async (headers: Readonly<Record<string, string>> = {}) =>
    (await workspace.post("/chat/completions", ASK, headers)).text();

  it("is asked with its own key, which no answer shows; the shared account and its key are left alone.", async () => {
    await put({ llmUrl: own.url, llmKey: OWN_KEY });
    const answer = await ask();
    expect(answer).to.contain("your key is ***");
    expect(own.asked.map(({ headers }) => headers.authorization)).to.deep.equal([`Bearer ${OWN_KEY}`]);
    expect(JSON.stringify(own.asked)).not.to.contain(SHARED_KEY).and.not.to.contain(workspace.key);
    expect(workspace.upstream.asked).to.have.length(0);
  });

  const CALLER_KEY = "sk-of-the-caller";
  const askWithKey = (origin?: string) =>
    ask({
      authorization: `Bearer ${CALLER_KEY}`,
      "x-api-key": workspace.key,
      ...(origin !== undefined && { "x-llm-origin": origin }),
    });

  it("gets the caller's own key where the call says that it is for its origin.", async () => {
    await put({ llmUrl: own.url, llmKey: OWN_KEY });
    for (const origin of [new URL(own.url).origin, own.url.toUpperCase(), `${own.url}/chat?x=1`])
      await askWithKey(origin);
    expect(own.asked.map(({ headers }) => headers.authorization)).to.deep.equal(Array(3).fill(`Bearer ${CALLER_KEY}`));
    expect(own.asked[0]?.headers).not.to.have.property("x-llm-origin");
  });

  it("does not get the caller's own key once it has another origin, nor without a word on whom it is for.", async () => {
    await put({ llmUrl: own.url });
    await askWithKey(own.url);
    expect(own.asked).to.have.length(1);
    const other = await startUpstream(sends(completion({ content: "thanks" })));
    await put({ llmUrl: other.url, llmKey: "sk-of-the-other" });
    for (const [origin, message] of [
      [own.url, "is not where the workspace's model service is now"],
      [undefined, "must name the origin that the key in `authorization` is for"],
      [other.url.replace("http:", "https:"), "is not where"],
      [other.url.replace("127.0.0.1", "localhost"), "is not where"],
      ["api.example", "must be an origin"],
      ["file:///v1", "must be an origin"],
      [`${own.url}, ${other.url}`, "is not where"],
    ] as const) {
      const { error } = JSON.parse(await askWithKey(origin)) as { error: { param: string; message: string } };
      expect([error.param, error.message.includes(message)], `${origin}: ${error.message}`).to.deep.equal([
        "x-llm-origin",
        true,
      ]);
      expect(error.message).not.to.include(new URL(other.url).port);
    }
    expect(other.asked).to.deep.equal([]);
    await ask();
    expect(other.asked.map(({ headers }) => headers.authorization)).to.deep.equal(["Bearer sk-of-the-other"]);
    await put({});
    await askWithKey();
    await askWithKey(workspace.upstream.url);
    await askWithKey(other.url);
    const shared = workspace.upstream.asked.map(({ headers }) => headers.authorization);
    expect(shared).to.deep.equal(Array(2).fill(`Bearer ${CALLER_KEY}`));
    await put({ llmUrl: `${workspace.upstream.url}/other/v1` });
    await askWithKey();
    expect(workspace.upstream.asked).to.have.length(3);
    await other.close();
  });

  it("keeps its key when what was read is put back, and gives it to no other address.", async () => {
    await put({ llmUrl: own.url, llmKey: OWN_KEY });
    await put({ llmUrl: own.url, restoreValues: true });
    await ask();
    expect(own.asked[0]?.headers.authorization).to.equal(`Bearer ${OWN_KEY}`);
    const other = own.url.replace("127.0.0.1", "localhost");
    await put({ llmUrl: other });
    await ask();
    expect(own.asked[1]?.headers.authorization).to.equal(undefined);
    await put({});
    await ask();
    expect(own.asked).to.have.length(2);
    expect(workspace.upstream.asked[0]?.headers.authorization).to.equal(`Bearer ${SHARED_KEY}`);
  });

  it("has address and key encrypted in the store, and neither in the log.", async () => {
    await put({ llmUrl: own.url, llmKey: OWN_KEY });
    const { pool } = workspace.database;
    const stored = await pool.query("select * from redaction_settings");
    const sealed = await pool.query("select body from ledger_entry");
    for (const { rows } of [stored, sealed]) {
      const text = rows
        .map((row) =>
          Object.values(row)
            .map((each) => (Buffer.isBuffer(each) ? each.toString("latin1") : String(each)))
            .join(),
        )
        .join();
      expect(text).not.to.contain(OWN_KEY).and.not.to.contain(own.url);
    }
    expect(workspace.logged()).not.to.contain(OWN_KEY);
  });

  it("is refused for an address that is not allowed or not right, and for a key that no header carries.", async () => {
    expect(await refusal(put({ llmUrl: "http://10.0.0.1/v1" }))).to.match(/^llm_url .*not allowed/);
    expect(await refusal(put({ llmUrl: "http://169.254.169.254/v1" }))).to.match(/^llm_url .*not allowed/);
    expect(await refusal(put({ llmUrl: "ftp://models.example.com/v1" }))).to.match(/^llm_url /);
    expect(await refusal(put({ llmUrl: "http://me:pw@127.0.0.1/v1" }))).to.match(/^llm_url .*credentials/);
    expect(await refusal(put({ llmUrl: "http://127.0.0.1/other" }))).to.match(/^llm_url .*`\/v1`/);
    expect(await refusal(put({ llmUrl: "http://127.0.0.1/v1?x=1" }))).to.match(/^llm_url /);
    expect(await refusal(put({ llmUrl: own.url, llmKey: "two words" }))).to.match(/^llm_key /);
    expect(await refusal(put({ llmKey: OWN_KEY }))).to.match(/^llm_key goes? ?.*|llm_key .*llm_url/);
  });

  it("is reached at allowed addresses only, also when its name leads elsewhere later.", async () => {
    const { lookup } = createTargets({ allow: [], lookup: async () => [{ address: "10.0.0.1", family: 4 }] });
    const error = await new Promise<Error | null>((resolve) => lookup("models.example.com", {}, resolve));
    expect(error).to.be.instanceOf(Error).with.property("code", "ENOTFOUND");
  });
});
