import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { describeWithPackages } from "../support/debian.ts";
import { DEBIAN_POSTGRES, type DebianPostgres, startDebianPostgres } from "../support/debian-postgres.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

const ENV = {
  ACP_ADMIN_KEY: "an-admin-key-of-the-test",
  ACP_ENCRYPTION_KEY: "an-encryption-key-of-the-test-0123456789",
};

type Answer = Record<string, never>;

async function call({ http, adminKey }: ServedHere, request: string, body?: object): Promise<Answer> {
  const [method = "", path = ""] = request.split(" ");
  const headers = { "x-api-key": adminKey, "content-type": "application/json" };
  const response = await fetch(http + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const answer = (await response.json()) as Answer;
  if (!response.ok) throw new Error(`${request}: ${JSON.stringify(answer)}`);
  return answer;
}

async function valuesOf(service: ServedHere, name: string): Promise<{ digest: string; values: string[] }> {
  const values: string[] = [];
  for (let token = ""; ; ) {
    const page = await call(service, `GET /v1/enforce/lists/${name}?page_size=500&page_token=${token}`);
    const {
      list,
      values: more,
      next_page_token: next,
    } = page as unknown as {
      readonly list: { readonly digest: string };
      readonly values: readonly string[];
      readonly next_page_token: string | null;
    };
    values.push(...more);
    if (next === null) return { digest: list.digest, values };
    token = next;
  }
}

describeWithPackages("lists in a dump", [DEBIAN_POSTGRES], function () {
  this.timeout(240_000);
  let server: DebianPostgres;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "lists-dump-"));
    server = await startDebianPostgres();
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  it("that is taken while they change are whole after a restore, as its log says, and go on to change.", async () => {
    const url = await server.database("acp");
    const first = await serveHere({ databaseUrl: url, env: ENV });
    const dump = join(folder, "lists.dump");
    try {
      let isDumped = false;
      const put = (round: number): Promise<Answer> => {
        const values = Array.from({ length: 5_000 }, (_, index) => `round ${round} value ${index}`);
        return call(first, "PUT /v1/enforce/lists/payees", { kind: "text", values });
      };
      await put(0);
      const changes = async (): Promise<void> => {
        for (let round = 1; !isDumped; round++) {
          await put(round);
          await call(first, "POST /v1/enforce/lists/payees:add", { values: [`late ${round}`] });
        }
      };
      const dumped = server.dump(url, dump).finally(() => {
        isDumped = true;
      });
      await Promise.all([changes(), dumped]);
    } finally {
      await first.stop();
    }
    const restored = await server.database("restored");
    await server.restore(dump, restored);
    const second = await serveHere({ databaseUrl: restored, env: ENV });
    try {
      const { digest, values } = await valuesOf(second, "payees");
      expect(createHash("sha256").update(JSON.stringify(values)).digest("hex")).to.equal(digest);
      const { entries } = (await call(second, "GET /v1/enforce/vault/entries?page_size=500")) as unknown as {
        readonly entries: readonly { readonly body: string }[];
      };
      const sealed = entries.map((entry) => JSON.parse(entry.body)).filter(({ list }) => list?.name === "payees");
      sealed.sort((a, b) => a.seq - b.seq);
      expect(sealed.at(-1)?.list.digest_after).to.equal(digest);
      await call(second, "POST /v1/enforce/lists/payees:add", { values: ["one more"] });
      expect((await valuesOf(second, "payees")).values).to.have.length(values.length + 1);
    } finally {
      await second.stop();
    }
  });
});
