import { readFileSync } from "node:fs";
import { expect } from "chai";
import { REASON_CODES } from "../../src/policy/reason-codes.ts";
import { sourceFiles } from "../architecture/source-files.ts";

/** Words of the comment above a field of a message in a proto file. */
function wordsAbove(path: string, message: string, field: string): string[] {
  const proto = readFileSync(path, "utf8");
  const body = proto.slice(proto.indexOf(`message ${message} {`));
  const [comment = ""] = new RegExp(`(?: *//.*\\n)+(?= *${field} = )`).exec(body) ?? [];
  return [...comment.matchAll(/`([A-Z_]+)`/g)].map(([, word = ""]) => word);
}

describe("the reason codes of decisions", () => {
  it("are those that the interface lists, no more and no fewer.", () => {
    const listed = wordsAbove("proto/agentcontrol/v1/resources.proto", "Reason", "string code");
    expect(listed.toSorted()).to.deep.equal(REASON_CODES.toSorted());
  });

  it("are each given by some step.", () => {
    // The gateway knows why a tool of a server is not in force.
    const steps = sourceFiles("src", ".ts").filter(
      ({ path }) => /^src\/(decision|gateway|policy|state)\//.test(path) && !path.endsWith("reason-codes.ts"),
    );
    const unused = REASON_CODES.filter((code) => !steps.some(({ text }) => text.includes(`"${code}"`)));
    expect(unused).to.deep.equal([]);
  });
});
