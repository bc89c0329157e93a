import { expect } from "chai";
import { NaiveWhens } from "../../../src/dryrun/naive/naive-when.ts";
import { checkPattern } from "../../../src/policy/patterns.ts";
import { compileWhen } from "../../../src/policy/when/compile-when.ts";
import { Fault } from "../../../src/policy/when/values.ts";
import { contextFrom } from "../harness.ts";
import { drawFrom, randomArgs, randomWhen } from "./random-when.ts";

/** The long form takes 200,000. */
const EXPRESSIONS = Number(process.env.WHENS ?? 5_000);
const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const NOW = 1_770_000_000_123;

describe("expressions and the library", () => {
  it(`agree on ${EXPRESSIONS} random expressions and arguments (seed ${SEED}).`, function () {
    // As long as the number of expressions takes.
    this.timeout(0);
    const naive = new NaiveWhens();
    const seen: Record<string, number> = { true: 0, false: 0, error: 0, limit: 0, invalid: 0 };
    for (let index = 0; index < EXPRESSIONS; index++) {
      const from = drawFrom(SEED + index);
      const expression = randomWhen(from);
      const args = randomArgs(from);
      const compiled = compileWhen(expression, {
        checkPattern: (pattern) => checkPattern(pattern, { ignoreCase: false }),
      });
      if (compiled.kind === "invalid") {
        seen.invalid = (seen.invalid ?? 0) + 1;
        continue;
      }
      const metadata = { arguments: args, k: 1, none: null };
      const context = contextFrom({ arguments: args, metadata, nowMs: NOW, departmentIds: ["dep_a", "dep_b"] });
      const result = compiled.when.judge(context);
      if (result instanceof Error) {
        seen.limit = (seen.limit ?? 0) + 1;
        continue;
      }
      const variables = {
        args,
        metadata,
        action: { type: context.actionType, content: "", tool: "" },
        agent: { id: context.agentId, name: "", trust: 50, departments: ["dep_a", "dep_b"], framework: "" },
        principal: { id: "" },
        session: { id: "" },
        tool: { registered: false },
      };
      const theirs = naive.of(expression)(variables, NOW);
      const mine = result instanceof Fault ? undefined : result;
      seen[mine === undefined ? "error" : `${mine}`] = (seen[mine === undefined ? "error" : `${mine}`] ?? 0) + 1;
      if (theirs !== mine) {
        const told = result instanceof Fault ? result.message : String(result);
        expect.fail(`SEED=${SEED + index}: ${expression}\n${JSON.stringify(args)}\nrules: ${told}\nlibrary: ${theirs}`);
      }
    }
    const least = EXPRESSIONS / 20;
    expect(Math.min(seen.true ?? 0, seen.false ?? 0, seen.error ?? 0), JSON.stringify(seen)).to.be.greaterThan(least);
    expect(seen.invalid, JSON.stringify(seen)).to.be.lessThan(least);
  });
});
