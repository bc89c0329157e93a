import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { createFireWorkspace } from "../fire/agents.ts";
import { post } from "../log/rest.ts";
import { SILENT_LOG } from "../support/database.ts";
import { startServer } from "../support/server.ts";

const OBSERVATIONS = 1_000;
/** Stands in every value that is observed, and in nothing else. */
const MARK = "qqzxmark";
/** Id of the workspace, which the same search finds. */
const SHOWN = "qqzxshown";

const contentOf = (index: number): string => {
  const values = [
    `a${index}.${MARK}@${MARK}-${index}.example`,
    `https://${MARK}-${index}.example/p`,
    `/${MARK}/${index}.txt`,
  ];
  return index % 2 === 0 ? values.join("\n") : JSON.stringify({ [`${MARK}${index}`]: values });
};

describe("the files of the database and the lines of the service after a thousand observations", function () {
  this.timeout(180_000);

  it("hold no byte of a value.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const dataDir = await mkdtemp(join(tmpdir(), "acp-hidden-"));
    cleanup.defer(() => rm(dataDir, { recursive: true, force: true }));
    await chmod(dataDir, 0o755);
    const postgres = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    const server = await startServer({ databaseUrl: postgres.ownerUrl, env: { ACP_LOG_LEVEL: "trace" } });
    const { agentId, apiKey } = await createFireWorkspace(server, SHOWN);
    const admin = { http: server.http, adminKey: apiKey };
    type Begun = { readonly session: { readonly session_id: string } };
    const begun = await post<Begun>(admin, "/v1/enforce/sessions", { agent_id: agentId });
    const path = `/v1/enforce/sessions/${begun.session.session_id}/observations`;
    let next = 0;
    const lanes = Array.from({ length: 16 }, async () => {
      for (let index = next++; index < OBSERVATIONS; index = next++) {
        await post(admin, path, { source: index % 3 === 0 ? "prompt" : "result", content: contentOf(index) });
      }
    });
    await Promise.all(lanes);
    const refused = post(admin, path, { source: "prompt", decision_id: "dec_1", content: contentOf(OBSERVATIONS) });
    await refused.catch(({ message }: Error) => expect(message).not.to.include(MARK));
    const lines = server.output();
    await server.stop();
    await postgres.stop();
    expect(lines).not.to.include(MARK);
    // Tables, indexes, and the write-ahead log, as a copy of the disk has them.
    const files = (await readdir(dataDir, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
    expect(files.length).to.be.greaterThan(100);
    const found: string[] = [];
    let shown = 0;
    for (const file of files) {
      const bytes = await readFile(join(file.parentPath, file.name));
      if (bytes.includes(SHOWN)) shown += 1;
      if (bytes.includes(MARK) || bytes.includes(Buffer.from(MARK).toString("hex"))) found.push(file.name);
    }
    expect(found).to.deep.equal([]);
    expect(shown).to.be.greaterThan(1);
  });
});
