import { expect } from "chai";
import { agentctl, createFolder, type Folder } from "./harness.ts";
import { decisions, newKey, type WrittenLog, writeLog } from "./written-log.ts";

const KEY = newKey();
const LOG = writeLog(decisions(20), { key: KEY, batches: [1, 4, 1, 2] });
/** The same service's log with one decision turned round, everything after it sealed and signed anew. */
const REWRITTEN = writeLog(
  decisions(20).map((draft, at) => (at === 7 ? { ...draft, decision: "escalate" } : draft)),
  { key: KEY, batches: [1, 4, 1, 2] },
);

const logText = ({ entries, publicPem, checkpoint }: WrittenLog, size: number): string => {
  const head = { format: "agent-control-plane.log/1", checkpoint: checkpoint(size), public_keys: [publicPem] };
  return [head, ...entries.slice(0, size)].map((each) => `${JSON.stringify(each)}\n`).join("");
};

const decisionText = ({ entries, publicPem, checkpoint, auditPath }: WrittenLog, index: number, size: number): string =>
  JSON.stringify({
    format: "agent-control-plane.decision/1",
    body: entries[index]?.body,
    leaf_index: index,
    audit_path: auditPath(index, size),
    checkpoint: checkpoint(size),
    public_keys: [publicPem],
  });

interface Case {
  readonly what: string;
  readonly bundle: string;
  readonly earlier: readonly string[];
  readonly code: number;
  readonly want: object;
}

const CASES: readonly Case[] = [
  {
    what: "a log that grew",
    bundle: logText(LOG, 20),
    earlier: [LOG.checkpoint(11), LOG.checkpoint(4)],
    code: 0,
    want: { verified: true },
  },
  {
    what: "a log of the same size",
    bundle: logText(LOG, 20),
    earlier: [LOG.checkpoint(20)],
    code: 0,
    want: { verified: true },
  },
  {
    what: "a log of the same size that was empty once",
    bundle: logText(LOG, 20),
    earlier: [LOG.checkpoint(0)],
    code: 0,
    want: { verified: true },
  },
  {
    what: "a log that was cut off and signed anew",
    bundle: logText(LOG, 15),
    earlier: [LOG.checkpoint(11), LOG.checkpoint(18)],
    code: 1,
    want: { fault: "truncated", index: 15, last_index: 17 },
  },
  {
    what: "a log that was rewritten and signed anew",
    bundle: logText(REWRITTEN, 20),
    earlier: [LOG.checkpoint(5), LOG.checkpoint(11)],
    code: 1,
    want: { fault: "rewritten", index: 5, last_index: 10 },
  },
  {
    what: "a log that was rewritten after the earlier checkpoint, which cannot be told",
    bundle: logText(REWRITTEN, 20),
    earlier: [LOG.checkpoint(7)],
    code: 0,
    want: { verified: true },
  },
  {
    what: "a checkpoint that another key signed",
    bundle: logText(LOG, 20),
    earlier: [writeLog(decisions(20)).checkpoint(11)],
    code: 1,
    want: { fault: "signature" },
  },
  {
    what: "a decision under the same checkpoint",
    bundle: decisionText(LOG, 3, 9),
    earlier: [LOG.checkpoint(9)],
    code: 0,
    want: { verified: true },
  },
  {
    what: "a decision in a fork of the log",
    bundle: decisionText(REWRITTEN, 3, 9),
    earlier: [LOG.checkpoint(9)],
    code: 1,
    want: { fault: "rewritten" },
  },
];

describe("agentctl vault verify --checkpoint", () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  const verify = async ({ bundle, earlier }: Pick<Case, "bundle" | "earlier">) => {
    const files = earlier.map((note, at) => folder.file(`checkpoint-${at}`, note));
    const checkpoints = (await Promise.all(files)).flatMap((path) => ["--checkpoint", path]);
    return agentctl(["vault", "verify", await folder.file("bundle", bundle), "--json", ...checkpoints]);
  };

  for (const each of CASES) {
    it(`${each.code === 0 ? "accepts" : "refuses"} ${each.what}.`, async () => {
      const { code, stdout, json } = await verify(each);
      expect(code, stdout).to.equal(each.code);
      expect(json(), stdout).to.include(each.want);
    });
  }

  it("says that a decision bundle cannot be compared with another size.", async () => {
    const { code, stdout } = await verify({ bundle: decisionText(LOG, 3, 9), earlier: [LOG.checkpoint(8)] });
    expect(code).to.equal(2);
    expect(stdout).to.include("of its own size;");
  });
});
