import { expect } from "chai";
import { createFolder, type Folder } from "../harness.ts";
import {
  blockReason,
  bodyOf,
  connectionFile,
  EVENT,
  hookLine,
  runCommandLine,
  type StrangeCall,
  serve,
  signatureOf,
} from "./hook-run.ts";

const ALLOW = bodyOf({ permissionDecision: "allow", updatedInput: {} });

describe("the hook of a coding agent", () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  it("blocks before the client's own time is up: when nothing answers, when an answer drips, and when an event does not end.", async () => {
    const silent = await serve(() => undefined);
    const dripping = await serve(drip);
    const lines: string[] = [];
    for (const { url } of [silent, dripping]) {
      const connection = await connectionFile(folder, url, {}, `${new URL(url).port}.json`);
      lines.push(...["claude-code", "codex"].map((client) => hookLine(url, connection, { client })));
    }
    const runs = lines.map((line) => runCommandLine(line, EVENT));
    runs.push(runCommandLine(hookLine(silent.url, folder.path("none.json")), undefined));
    const startedAt = performance.now();
    for (const run of await Promise.all(runs)) expect(blockReason(run)).to.contain("gave no answer in 30 s");
    expect(performance.now() - startedAt).to.be.greaterThan(29_000);
    await Promise.all([silent.close(), dripping.close()]);
  });

  /** Sends a right answer too slowly. */
  function drip({ response, nonce }: StrangeCall): void {
    response.writeHead(200, { "content-length": ALLOW.length, "x-hook-signature": signatureOf(nonce, ALLOW) });
    let sent = 0;
    const timer = setInterval(() => response.write(ALLOW.charAt(sent++)), 1_000);
    response.on("close", () => clearInterval(timer));
  }
});
