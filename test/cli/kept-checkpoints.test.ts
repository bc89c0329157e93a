import { expect } from "chai";
import { agentctl, createFolder, type Folder } from "./harness.ts";
import { decisions, newKey, type WrittenLog, writeLog } from "./written-log.ts";

const KEY = newKey();
const BATCHES = [1, 4, 1, 2];
const LOG = writeLog(decisions(20), { key: KEY, batches: BATCHES });
/** The same service's log with one row rewritten, everything after it sealed and signed anew with its own key. */
const REWRITTEN = writeLog(
  decisions(20).map((draft, at) => (at === 7 ? { ...draft, decision: "escalate" } : draft)),
  { key: KEY, batches: BATCHES },
);
const FOREIGN = writeLog(decisions(20), { key: newKey(), batches: BATCHES });

const bundleOf = ({ entries, publicPem, checkpoint }: WrittenLog, size: number): string => {
  const head = { format: "agent-control-plane.log/1", checkpoint: checkpoint(size), public_keys: [publicPem] };
  return [head, ...entries.slice(0, size)].map((each) => `${JSON.stringify(each)}\n`).join("");
};
/** A file as the service writes it. */
const fileOf = (...notes: readonly string[]): string => notes.map((note) => `${note}\n`).join("");
/** The same checkpoint under another name: the signature holds no longer. */
const ofWorkspace = (note: string, workspace: string): string =>
  note.replaceAll("/vault/default", `/vault/${workspace}`);

describe("agentctl vault verify --against", () => {
  let folder: Folder;
  before(async () => {
    folder = await createFolder();
  });
  after(() => folder?.remove());

  const verify = async (bundle: string, ...files: readonly string[]) => {
    const paths = await Promise.all(files.map((text, at) => folder.file(`kept-${at}`, text)));
    const against = paths.flatMap((path) => ["--against", path]);
    return agentctl(["vault", "verify", await folder.file("bundle", bundle), "--json", ...against]);
  };

  it("proves that the log contains every checkpoint of a file, and of several.", async () => {
    const kept = fileOf(LOG.checkpoint(4), LOG.checkpoint(11), LOG.checkpoint(20));
    for (const files of [[kept], [LOG.checkpoint(7)], [kept, fileOf(LOG.checkpoint(5))]]) {
      const { code, stdout, json } = await verify(bundleOf(LOG, 20), ...files);
      expect(code, stdout).to.equal(0);
      expect(json()).to.include({ verified: true });
    }
  });

  it("leaves out the checkpoints of other workspaces beside those of this one.", async () => {
    const kept = fileOf(ofWorkspace(FOREIGN.checkpoint(9), "other"), LOG.checkpoint(11));
    expect((await verify(bundleOf(LOG, 20), kept)).code).to.equal(0);
  });

  it("finds a log with a rewritten row that was signed anew, and names the checkpoint.", async () => {
    const kept = fileOf(LOG.checkpoint(4), LOG.checkpoint(7), LOG.checkpoint(11), LOG.checkpoint(18));
    const { code, json } = await verify(bundleOf(REWRITTEN, 20), kept);
    expect(code).to.equal(1);
    expect(json()).to.include({ verified: false, fault: "rewritten" });
    expect(JSON.stringify(json())).to.match(/checkpoint 3 of `[^`]*kept-0`, of size 11, says/);
  });

  it("finds a log that was cut off and signed anew, and names the checkpoint.", async () => {
    const { code, json } = await verify(bundleOf(LOG, 15), fileOf(LOG.checkpoint(11), LOG.checkpoint(18)));
    expect(code).to.equal(1);
    expect(json()).to.include({ verified: false, fault: "truncated" });
    expect(JSON.stringify(json())).to.match(/checkpoint 2 of `[^`]*kept-0` covers 18 entries/);
  });

  it("refuses a file without a checkpoint of this workspace.", async () => {
    const { code, stdout } = await verify(bundleOf(LOG, 20), fileOf(ofWorkspace(LOG.checkpoint(4), "other")));
    expect(code).to.equal(2);
    expect(stdout).to.match(
      /has no checkpoint of `log\.example\/vault\/default`; it has those of `log\.example\/vault\/other`/,
    );
  });

  it("refuses a checkpoint that another key signed.", async () => {
    const { code, json } = await verify(bundleOf(LOG, 20), fileOf(LOG.checkpoint(4), FOREIGN.checkpoint(11)));
    expect(code).to.equal(1);
    expect(json()).to.include({ verified: false, fault: "signature" });
    expect(JSON.stringify(json())).to.match(/checkpoint 2 of `[^`]*kept-0`: .*is not signed by/);
  });

  it("refuses a file that is cut within a checkpoint, one that is empty, and one of other content.", async () => {
    for (const text of [fileOf(LOG.checkpoint(4), LOG.checkpoint(11)).slice(0, -30), "", "a\nb\n", "\u0000"]) {
      const { code, stdout } = await verify(bundleOf(LOG, 20), text);
      expect(code).to.be.oneOf([1, 2]);
      expect(stdout).to.match(/checkpoint \d of `/);
    }
  });
});
