import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { createLeakageNotices } from "../../src/redaction/leakage-notices.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { createTargets } from "../../src/webhook/target.ts";
import { ALLOW } from "../webhook/replica.ts";
import { openRedactionWorkspace, type Process, type RedactionWorkspace, WORKSPACE } from "./harness.ts";
import { startRawReceiver } from "./raw-receiver.ts";
import { chunk, sends } from "./upstream.ts";

const CHAT = "/chat/completions";
const ASK = { model: "test-1", messages: [{ role: "user", content: "hello" }] };
const NAMES = ["first", "second", "third"] as const;

const textOf = (response: Response): Promise<string> => response.text();

/** Members of a body, so that it has some more bytes. */
const padded = (bytes: number) => JSON.stringify({ ...ASK, user: "x ".repeat(bytes / 2) });

describe("what workspaces share in the redaction proxy", () => {
  let workspace: RedactionWorkspace;
  const keys = new Map<string, string>();
  before(async () => {
    workspace = await openRedactionWorkspace();
    const context = { database: workspace.database, nowMs: Date.now(), by: "system" };
    for (const workspaceId of NAMES) keys.set(workspaceId, (await createWorkspace(context, { workspaceId })).secret);
  });
  after(() => workspace.close());

  const urlOf = ({ baseUrl }: Process, name: string): string => baseUrl.replace(`/${WORKSPACE}/`, `/${name}/`);
  const headersOf = (name: string) => ({
    "content-type": "application/json",
    authorization: `Bearer ${keys.get(name)}`,
  });

  function post(process: Process, name: string, body: string, signal?: AbortSignal): Promise<Response> {
    const init = { method: "POST", headers: headersOf(name), body };
    return fetch(urlOf(process, name) + CHAT, signal === undefined ? init : { ...init, signal });
  }

  it("are notices of leakage: those of two workspaces wait for a receiver, and a third's are sent.", async () => {
    const silent = await startRawReceiver({ isSilent: true });
    const lost: string[] = [];
    const log = {
      info: () => undefined,
      warn: ({ workspace_id }: object & { workspace_id?: string }) => {
        lost.push(workspace_id ?? "");
      },
      error: () => undefined,
    };
    const notices = createLeakageNotices({
      pool: workspace.database.pool,
      targets: createTargets({ allow: ALLOW }),
      encryptor: createEncryptor("encryption-key-of-the-tests-0123456789"),
      log,
      maxPending: 9,
    });
    for (const workspaceId of NAMES) {
      const url = `http://127.0.0.1:${silent.port}/`;
      await workspace.redaction.webhooks.create({ workspaceId, keyId: "key_test" }, { url, secret: undefined });
      for (let sent = 0; sent < 6; sent++) notices.send({ workspaceId, leakedCount: 1, atMs: 0, trace: undefined });
    }
    await silent.waitFor(4 + 2 + 1);
    expect(lost).to.deep.equal([...Array(2).fill("first"), ...Array(4).fill("second"), ...Array(5).fill("third")]);
    await notices.close(0);
    await silent.close();
  });

  it("are the bytes of requests: two workspaces hold theirs, and a third is served.", async () => {
    const size = 20_000;
    const process = await workspace.process({ maxHeldBytes: 8.4 * (size + 5_000) });
    workspace.upstream.answer = () => undefined;
    const leaving = new AbortController();
    const held: number[] = [];
    for (const name of NAMES) {
      let asked = 0;
      for (let refused: Response | undefined; refused === undefined; asked++) {
        const before = workspace.upstream.asked.length;
        const posted = post(process, name, padded(size), leaving.signal).catch(() => undefined);
        void posted.then((response) => {
          refused = response;
        });
        while (refused === undefined && workspace.upstream.asked.length === before) await delay(5);
        if (refused !== undefined) expect(await textOf(refused)).to.contain("bytes of requests to models");
      }
      held.push(asked - 1);
    }
    expect(held).to.deep.equal([4, 2, 1]);
    leaving.abort();
    workspace.upstream.answer = sends({ ok: true });
    let status = 429;
    while (status === 429) status = (await post(process, "first", padded(size))).status;
    expect(status).to.equal(200);
  });

  it("are the bytes of events that have not come whole: two workspaces hold theirs, and a third is served.", async () => {
    const size = 40_000;
    const process = await workspace.process({ maxAnswerBytes: 8.4 * (size + 2_000) });
    workspace.upstream.answer = (_asked, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: {"x": "${"y".repeat(size)}`);
    };
    const leaving = new AbortController();
    const held: number[] = [];
    for (const name of NAMES) {
      for (let begun = 0; ; begun++) {
        const response = await post(process, name, JSON.stringify({ ...ASK, stream: true }), leaving.signal);
        const text = response.text().catch(() => "");
        // A stream that is refused ends; one that waits for the rest of its event does not.
        const end = await Promise.race([text, delay(300, undefined)]);
        if (end === undefined) continue;
        expect(end).to.contain("bytes of answers of models").and.contain("overloaded");
        held.push(begun);
        break;
      }
    }
    expect(held).to.deep.equal([4, 2, 1]);
    leaving.abort();
  });

  it("are the texts of a stream that are held back: a model that begins ever more of them is cut off.", async () => {
    const process = await workspace.process({ maxAnswerBytes: 200_000 });
    workspace.upstream.answer = (_asked, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (let index = 0; index < 40; index++) response.write(chunk({ content: `call 4${index}` }, null, index));
    };
    const body = JSON.stringify({ ...ASK, stream: true });
    const text = await (await post(process, "first", body)).text();
    expect(text).to.contain("bytes of answers of models").and.contain("overloaded");
    workspace.upstream.answer = sends({ ok: true });
    expect((await post(process, "first", body)).status).to.equal(200);
  });

  it("are whole answers that callers do not read: two workspaces hold theirs, and a third is answered.", async () => {
    const size = 10_000_000;
    const process = await workspace.process({ maxAnswerBytes: 8.4 * size });
    const answer = JSON.stringify({ text: "x".repeat(size - 100) });
    workspace.upstream.answer = (_asked, response) => {
      response.writeHead(200, { "content-type": "application/json" }).end(answer);
    };
    const { hostname, port, pathname } = new URL(process.baseUrl);
    /** Asks, and stops reading after the headers. Returns the beginning of the answer. */
    const ask = (name: string): Promise<{ readonly text: string; leave(): void }> =>
      new Promise((resolve, reject) => {
        const socket = connect(Number(port), hostname);
        const body = JSON.stringify(ASK);
        const headers = Object.entries({ ...headersOf(name), host: "x", "content-length": body.length });
        const path = pathname.replace(`/${WORKSPACE}/`, `/${name}/`) + CHAT;
        const lines = [`POST ${path} HTTP/1.1`, ...headers.map(([key, value]) => `${key}: ${value}`)];
        socket.write(`${lines.join("\r\n")}\r\n\r\n${body}`);
        let text = "";
        socket.once("error", reject);
        socket.on("data", (chunk: Buffer) => {
          text += chunk.toString("latin1");
          const end = text.indexOf("\r\n\r\n");
          if (end === -1 || end + 4 === text.length) return;
          socket.pause();
          resolve({ text, leave: () => void socket.destroy() });
        });
      });
    const open: { leave(): void }[] = [];
    const held: number[] = [];
    for (const name of NAMES) {
      for (let answered = 0; ; answered++) {
        const begun = await ask(name);
        open.push(begun);
        if (begun.text.startsWith("HTTP/1.1 200")) continue;
        expect(begun.text).to.contain("429").and.contain("bytes of answers of models");
        held.push(answered);
        break;
      }
    }
    expect(held).to.deep.equal([4, 2, 1]);
    for (const { leave } of open) leave();
  });
});
