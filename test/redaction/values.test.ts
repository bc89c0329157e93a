import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { createEncryptor, loadEncryptionKey } from "../../src/store/encryptor.ts";
import { failureOf, reasonOf } from "../support/harness.ts";
import { openRedactionWorkspace, PERSONAL, type Process, type RedactionWorkspace, sealedChanges } from "./harness.ts";

const { name, email } = PERSONAL;
const PLAIN = { restoreValues: false, allowMedia: false, disabledKinds: [], allow: [] };

describe("registered personal values", () => {
  let workspace: RedactionWorkspace;
  let other: Process;
  before(async () => {
    workspace = await openRedactionWorkspace();
    other = await workspace.process();
  });
  after(() => workspace?.close());

  const scrubbed = async ({ redaction }: Process, text: string): Promise<string> =>
    (await redaction.scrub(workspace.caller, text)).text;

  it("are found from the next call on, on every process, and no more once they are deleted.", async () => {
    const { values } = workspace.redaction;
    expect(await scrubbed(other, name)).to.equal(name);
    const { values: added } = await values.add(workspace.caller, [{ kind: "", value: ` ${name} ` }]);
    for (const each of [workspace, other])
      expect(await scrubbed(each, `to ${name.toUpperCase()}`)).to.match(/^to \[PERSON_1_/);
    await other.redaction.values.delete(workspace.caller, added[0]?.valueId ?? "");
    for (const each of [workspace, other]) expect(await scrubbed(each, name)).to.equal(name);
    const deleted = await reasonOf(values.delete(workspace.caller, added[0]?.valueId ?? ""));
    expect(deleted).to.equal("PERSONAL_VALUE_NOT_FOUND");
  });

  it("are kept once for each kind, listed masked, and sealed as counts.", async () => {
    const { values } = workspace.redaction;
    const drafts = ["Ada Lovelace", "ADA  lovelace", "Bo", "Émile Zö"].map((value) => ({ kind: "person_name", value }));
    const { values: all, added } = await values.add(workspace.caller, [
      ...drafts,
      { kind: "other", value: "Ada Lovelace" },
    ]);
    expect(added).to.equal(4);
    expect(all.map(({ masked }) => masked)).to.deep.equal(["A•••e", "•••", "É•••ö", "A•••e"]);
    expect((await values.add(workspace.caller, drafts)).added).to.equal(0);
    const { items, next } = await values.list(workspace.caller, "person_name", { size: 2 });
    const rest = await values.list(workspace.caller, "person_name", { size: 2, after: next });
    expect([...items, ...rest.items].map(({ valueId }) => valueId)).to.have.members(
      all.slice(0, 3).map(({ valueId }) => valueId),
    );
    const sealed = await sealedChanges(workspace, "personal_values_added");
    expect(sealed.at(-1)?.kinds).to.deep.equal({ person_name: 3, other: 1 });
  });

  it("are refused when they are too short, too long, of no kind or not storable, and then none is kept.", async () => {
    const { values } = workspace.redaction;
    const cases = [
      { kind: "", value: " x " },
      { kind: "", value: "x".repeat(257) },
      { kind: "", value: "half \ud800" },
      { kind: "colour", value: "blue" },
    ];
    for (const wrong of cases) {
      const failure = await failureOf(values.add(workspace.caller, [{ kind: "other", value: "Kept Never" }, wrong]));
      expect(failure.violations[0]?.field).to.match(/^values\[1\]\.(value|kind)$/);
    }
    expect(await scrubbed(workspace, "Kept Never")).to.equal("Kept Never");
  });

  it("do not open under another key, under which nothing is added either.", async () => {
    const stranger = await workspace.process({ key: "another-encryption-key-0123456789-abcdef" });
    await workspace.redaction.values.add(workspace.caller, [{ kind: "", value: "Otto Normal" }]);
    const { redaction } = stranger;
    expect(await reasonOf(redaction.scrub(workspace.caller, "x"))).to.equal("ENCRYPTION_KEY_DIFFERS");
    const adding = redaction.values.add(workspace.caller, [{ kind: "", value: "Erika Muster" }]);
    expect(await reasonOf(adding)).to.equal("ENCRYPTION_KEY_DIFFERS");
    const response = await fetch(`${stranger.baseUrl}/chat/completions`, {
      method: "POST",
      body: '{"messages":[{"content":"Otto Normal"}]}',
      headers: { "content-type": "application/json", authorization: `Bearer ${workspace.key}` },
    });
    expect(response.status).to.equal(400);
    expect(workspace.upstream.asked).to.deep.equal([]);
  });

  it("may be thousands.", async () => {
    const drafts = Array.from({ length: 5_000 }, (_, index) => ({ kind: "account_number", value: `ACC-${index}-XK` }));
    expect((await workspace.redaction.values.add(workspace.caller, drafts)).added).to.equal(5_000);
    expect(await scrubbed(other, "it is ACC-4999-XK")).to.match(/^it is \[/);
  });
});

describe("redaction settings", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace();
  });
  after(() => workspace?.close());

  it("are the defaults until they are put, and hold for the next call on every process.", async () => {
    const other = await workspace.process();
    expect(await workspace.redaction.settings(workspace.caller)).to.deep.include(PLAIN);
    const text = `${email} is at 8.8.8.8`;
    expect((await other.redaction.scrub(workspace.caller, text)).findings.map(({ kind }) => kind)).to.include("email");
    const settings = { ...PLAIN, allow: ["*@corp-mail.org"], disabledKinds: ["ip_address"] };
    await workspace.redaction.putSettings(workspace.caller, settings);
    expect(await other.redaction.scrub(workspace.caller, text)).to.deep.equal({ text, findings: [] });
    expect(await other.redaction.settings(workspace.caller)).to.deep.include(settings);
    const dump = await workspace.database.pool.query("select t::text as text from redaction_settings t");
    expect(JSON.stringify(dump.rows)).not.to.include("corp-mail");
  });

  it("are sealed without the allow-list, and not when nothing changed.", async () => {
    const settings = { ...PLAIN, allow: ["Acme"] };
    for (const _ of [1, 2]) await workspace.redaction.putSettings(workspace.caller, settings);
    const sealed = (await sealedChanges(workspace, "redaction_settings_changed")).filter(
      ({ allowed }) => allowed === 1,
    );
    expect(sealed.length).to.equal(2);
    expect(JSON.stringify(sealed)).not.to.include("Acme");
  });

  it("know only kinds that are detected.", async () => {
    const wrong = { ...PLAIN, disabledKinds: ["email", "person_name"] };
    const failure = await failureOf(workspace.redaction.putSettings(workspace.caller, wrong));
    expect(failure.violations[0]?.field).to.equal("disabled_kinds[1]");
  });
});

describe("what redaction encrypts", () => {
  const encryptor = createEncryptor("a secret of thirty-two characters");

  it("opens in its place and workspace alone, and not when anything in it was changed.", async () => {
    const sealed = encryptor.encrypt("ws", "value pv_1", name);
    expect(encryptor.decrypt("ws", "value pv_1", sealed)).to.equal(name);
    expect(encryptor.encrypt("ws", "value pv_1", name).equals(sealed)).to.equal(false);
    expect(await reasonOf(() => encryptor.decrypt("ws2", "value pv_1", sealed))).to.equal("ENCRYPTION_KEY_DIFFERS");
    expect(await reasonOf(() => encryptor.decrypt("ws", "value pv_2", sealed))).to.equal("ENCRYPTION_KEY_DIFFERS");
    for (const at of sealed.keys()) {
      const changed = Buffer.from(sealed);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(await reasonOf(() => encryptor.decrypt("ws", "value pv_1", changed)), `byte ${at}`).to.equal(
        "ENCRYPTION_KEY_DIFFERS",
      );
    }
    expect(await reasonOf(() => encryptor.decrypt("ws", "value pv_1", sealed.subarray(0, 20)))).to.equal(
      "ENCRYPTION_KEY_DIFFERS",
    );
  });

  it("is under a key that is made once, for its owner alone.", async () => {
    const folder = await mkdtemp(join(tmpdir(), "acp-redaction-"));
    try {
      const path = join(folder, "data", "encryption-key");
      const keys = await Promise.all([1, 2, 3, 4].map(() => loadEncryptionKey(undefined, path)));
      expect(new Set(keys).size).to.equal(1);
      expect(await readFile(path, "utf8")).to.equal(keys[0]);
      expect((await stat(path)).mode & 0o777).to.equal(0o600);
      expect(await loadEncryptionKey("configured", path)).to.equal("configured");
      await writeFile(path, "nonsense");
      const failure = await loadEncryptionKey(undefined, path).catch((error: Error) => error.message);
      expect(failure)
        .to.include("holds no encryption key")
        .and.include("ACP_ENCRYPTION_KEY")
        .and.not.to.include("nonsense");
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
