import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect } from "chai";

const MODULE = new URL("../../src/server/errors.ts", import.meta.url).href;
const PROGRAM = `
  import { pino } from "pino";
  import { surviveUncaught } from "${MODULE}";
  surviveUncaught(pino(pino.destination({ fd: 2, sync: true })));
  Promise.reject(Object.assign(new Error("a rejection"), { headers: { "x-api-key": "acp_secret" } }));
  setTimeout(() => { throw new Error("an exception"); });
  setTimeout(() => { throw undefined; }, 10);
  setTimeout(() => process.stdout.write("still serving"), 50);
`;

describe("surviveUncaught", () => {
  it("logs an exception or rejection that nobody handles, and the process goes on.", async () => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", PROGRAM]);
    expect(stdout).to.equal("still serving");
    const logged = stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { event: string; causes: string[] });
    expect(logged.map(({ event, causes }) => [event, causes[0]?.split("\n")[0]])).to.deep.equal([
      ["unhandledRejection", "Error: a rejection"],
      ["uncaughtException", "Error: an exception"],
      ["uncaughtException", undefined],
    ]);
    expect(stderr).not.to.contain("acp_secret");
  });
});
