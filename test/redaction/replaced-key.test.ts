import { expect } from "chai";
import type { StoredObjects } from "../../src/redaction/proxy/stored-objects.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { reencrypt } from "../../src/store/reencrypt.ts";
import { SILENT_LOG } from "../support/database.ts";
import { ENCRYPTION_KEY, openRedactionWorkspace, PERSONAL, type RedactionWorkspace } from "./harness.ts";
import { sends } from "./upstream.ts";

const NEXT_KEY = "next-encryption-key-of-the-tests-0123456789";
const DRAFT = { kind: "person_name", value: PERSONAL.name };

/** The id of an object as a workspace's guard hands it out. */
function markedId(guard: StoredObjects): unknown {
  const work = guard.mark({ id: "resp_1" });
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return (value as { id: string }).id;
  }
}

describe("redaction while the encryption key is replaced", () => {
  let workspace: RedactionWorkspace;
  before(async () => {
    workspace = await openRedactionWorkspace({ llmKey: "sk-own", earlierKey: NEXT_KEY });
    workspace.upstream.answer = sends({ id: "resp_1", object: "response", output: [] });
  });
  after(() => workspace?.close());

  const renew = (): Promise<void> =>
    reencrypt({ pool: workspace.database.pool, encryptor: createEncryptor(NEXT_KEY, ENCRYPTION_KEY), log: SILENT_LOG });

  it("gives equal values one id and stored objects one name, on processes of either key and afterwards.", async () => {
    const first = await workspace.redaction.values.add(workspace.caller, [DRAFT]);
    const reply = (await (await workspace.post("/responses", { model: "m", input: "x" })).json()) as { id: string };
    expect(reply.id).to.match(/^resp_1\.[\w-]{16}$/);
    const exchanged = await workspace.process({ key: NEXT_KEY, earlierKey: ENCRYPTION_KEY });
    await renew();
    const later = await workspace.process({ key: NEXT_KEY });
    for (const each of [workspace, exchanged, later]) {
      expect(await each.redaction.values.add(workspace.caller, [DRAFT])).to.deep.equal({ ...first, added: 0 });
      const next = await each.post("/responses", { model: "m", input: "x", previous_response_id: reply.id });
      expect(await next.json()).to.include({ id: reply.id });
      expect(JSON.parse(workspace.upstream.asked.at(-1)?.body ?? "")).to.include({ previous_response_id: "resp_1" });
    }
  });

  it("makes one mark key for a workspace, whichever of its processes asks first.", async () => {
    const processes = await Promise.all([1, 2, 3].map(() => workspace.process({ key: NEXT_KEY })));
    const guards = await Promise.all(processes.map(({ redaction }) => redaction.storedObjects("raced")));
    expect(new Set(guards.map(markedId)).size).to.equal(1);
    expect(markedId(await workspace.redaction.storedObjects("other"))).not.to.equal(
      markedId(guards[0] as StoredObjects),
    );
  });

  it("finds the values of a database that has no mark keys yet, those that were registered twice too.", async () => {
    const { pool } = workspace.database;
    const { values } = await workspace.redaction.values.add(workspace.caller, [DRAFT]);
    await pool.query("delete from mark_key");
    await pool.query(`update personal_value set mark = sha256(mark)`);
    await pool.query(`insert into personal_value select workspace_id, 'pv_of_another_key', kind, '\\x00', '\\x01', 1
      from personal_value`);
    const upgraded = await workspace.process({ key: NEXT_KEY });
    const again = await upgraded.redaction.values.add(workspace.caller, [DRAFT]);
    expect(again).to.deep.equal({ values, added: 0 });
  });
});
