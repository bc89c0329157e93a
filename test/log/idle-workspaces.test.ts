import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { withWorkspace } from "../support/harness.ts";

const WORKSPACES = 100;
const MAX_KIB = 128;

/** Returns a function that reads the bytes in use once everything unused is gone. */
function memoryReader(): () => number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  return () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
}

describe("workspaces that nobody uses", () => {
  it(`take at most ${MAX_KIB} KiB each in memory.`, () =>
    withWorkspace({}, async ({ database, logs }) => {
      const ids = Array.from({ length: WORKSPACES }, (_, index) => `idle-${index}`);
      for (const workspaceId of ids) {
        await createWorkspace({ database, nowMs: Date.now(), by: "system" }, { workspaceId });
      }
      const memory = memoryReader();
      const before = memory();
      for (const workspaceId of ids) await logs.of(workspaceId);
      expect((memory() - before) / WORKSPACES / 1024).to.be.below(MAX_KIB);
    }));
});
