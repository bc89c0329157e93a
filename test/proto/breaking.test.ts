import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..");
const ENFORCEMENT = "agentcontrol/v1/enforcement_service.proto";
const ESCALATIONS = "agentcontrol/v1/escalation_service.proto";

/** A change of a proto, and what a client misses then; undefined: nothing. */
interface Change {
  readonly what: string;
  readonly path: string;
  readonly from: RegExp;
  readonly to: string;
  readonly missed: string | undefined;
}

/** Changes that are made together, each in another place: a comparison reads all protos. */
const ROUNDS: readonly (readonly Change[])[] = [
  [
    {
      what: "a field is removed",
      path: ENFORCEMENT,
      from: /^ {2}optional string request_id = 10 .*$/m,
      to: "",
      missed: 'field "10" with name "request_id" on message "InterceptRequest" was deleted',
    },
    {
      what: "a value of an enum is renamed",
      path: ESCALATIONS,
      from: /RESOLUTION_APPROVED = 1/,
      to: "RESOLUTION_GRANTED = 1",
      missed: "RESOLUTION_GRANTED",
    },
    {
      what: "a call is removed",
      path: ESCALATIONS,
      from: /^ {2}rpc GetEscalationStatus\((?:.*\n)*? {2}\}$/m,
      to: "",
      missed: 'RPC "GetEscalationStatus" on service "EscalationService" was deleted',
    },
    {
      what: "a call has no path",
      path: ENFORCEMENT,
      from: /option \(google\.api\.http\) = \{get: "\/v1\/enforce\/decisions"\};/,
      to: "",
      missed: "GET /v1/enforce/decisions EnforcementService.ListDecisions",
    },
  ],
  [
    {
      what: "a field is removed and its number reserved",
      path: ENFORCEMENT,
      from: /^ {2}optional string request_id = 10 .*$/m,
      to: '  reserved 10;\n  reserved "request_id";',
      missed: 'field "10" with name "request_id" on message "InterceptRequest" was deleted',
    },
    {
      what: "a path is another",
      path: ENFORCEMENT,
      from: /"\/v1\/enforce\/decisions\/\{decision_id\}"/,
      to: '"/v1/enforce/decision/{decision_id}"',
      missed: "GET /v1/enforce/decisions/{decision_id} EnforcementService.GetDecision",
    },
    {
      what: "a path has another method",
      path: ENFORCEMENT,
      from: /\{get: "\/v1\/enforce\/decisions"\}/,
      to: '{delete: "/v1/enforce/decisions"}',
      missed: "GET /v1/enforce/decisions EnforcementService.ListDecisions",
    },
  ],
  [
    {
      what: "a field gets another number",
      path: ENFORCEMENT,
      from: /optional string request_id = 10 /,
      to: "optional string request_id = 99 ",
      missed: 'field "10" with name "request_id" on message "InterceptRequest" was deleted',
    },
    {
      what: "a request moves from the body to the query",
      path: ESCALATIONS,
      from: /(\/withdraw") body: "\*"/,
      to: "$1",
      missed: "POST /v1/enforce/escalations/{escalation_id}/withdraw EscalationService.WithdrawEscalation body=*",
    },
  ],
  [
    {
      what: "a field is added",
      path: ENFORCEMENT,
      from: /message GetDecisionResponse \{/,
      to: "$&\n  string added = 99;",
      missed: undefined,
    },
    {
      what: "a path is added",
      path: ENFORCEMENT,
      from: /\{get: "\/v1\/enforce\/decisions"\}/,
      to: '{get: "/v1/enforce/decisions" additional_bindings {get: "/v1/enforce/more"}}',
      missed: undefined,
    },
  ],
];

describe("the interface, compared with the released one", () => {
  let copy: string;
  before("copies the protos with what compares them", async () => {
    copy = mkdtempSync(join(tmpdir(), "acp-interface-"));
    for (const path of ["buf.yaml", "proto", "test/testdata/interface"])
      cpSync(join(ROOT, path), join(copy, path), { recursive: true });
    for (const path of ["node_modules", "gen", "package.json"]) symlinkSync(join(ROOT, path), join(copy, path));
    await run(process.execPath, [join(copy, "proto", "print-validate.ts")], { cwd: copy });
  });
  after("removes them", () => rmSync(copy, { recursive: true, force: true }));

  /** Compares, or with `renew` stores; gives the exit code and what was printed. */
  async function compare(...argv: readonly string[]): Promise<{ readonly code: number; readonly text: string }> {
    try {
      const { stdout, stderr } = await run(process.execPath, [join(copy, "proto", "breaking.ts"), ...argv]);
      return { code: 0, text: stdout + stderr };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code, text: stdout + stderr };
    }
  }

  async function changed<T>(changes: readonly Change[], use: () => Promise<T>): Promise<T> {
    const files = [ENFORCEMENT, ESCALATIONS].map((path) => join(copy, "proto", path));
    const texts = files.map((file) => readFileSync(file, "utf8"));
    try {
      for (const { path, from, to } of changes) {
        const file = join(copy, "proto", path);
        const text = readFileSync(file, "utf8");
        const edited = text.replace(from, to);
        expect(edited).not.to.equal(text);
        writeFileSync(file, edited);
      }
      return await use();
    } finally {
      for (const [index, file] of files.entries()) writeFileSync(file, texts[index] ?? "");
    }
  }

  it("has everything that was released.", async () => {
    expect(await compare()).to.deep.equal({ code: 0, text: "" });
  });

  for (const changes of ROUNDS) {
    describe("after changes", () => {
      let found: Awaited<ReturnType<typeof compare>>;
      before("compares it", async () => {
        found = await changed(changes, compare);
      });

      for (const { what, missed } of changes) {
        it(`${missed === undefined ? "passes" : "fails, and says what clients miss,"} if ${what}.`, () => {
          expect(found.code, found.text).to.equal(missed === undefined ? 0 : 1);
          expect(found.text).to.contain(missed ?? "");
        });
      }
    });
  }

  describe("once a release renewed it", () => {
    it("is the released one.", () =>
      changed(ROUNDS[0] ?? [], async () => {
        expect(await compare("renew")).to.deep.equal({ code: 0, text: "" });
        expect(await compare()).to.deep.equal({ code: 0, text: "" });
      }));
  });
});
