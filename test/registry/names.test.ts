import { readFileSync } from "node:fs";
import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { nameKey } from "../../src/cli/name-key.ts";
import { comparableName } from "../../src/policy/names.ts";
import { actionRule, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";
import { withOwner } from "../support/owner.ts";

/** Names that people may give, and texts that are no names, with what is said of them. */
interface Names {
  readonly accepted: readonly string[];
  readonly refused: readonly { readonly name: string; readonly fault: string }[];
  /** Pairs of spellings of one name, and of two names. */
  readonly equal: readonly (readonly [string, string])[];
  readonly distinct: readonly (readonly [string, string])[];
}

const FILE = new URL("../testdata/registry/names.json", import.meta.url);
const NAMES = JSON.parse(readFileSync(FILE, "utf8")) as Names;
const shown = (name: string): string => JSON.stringify(name).replace(/[^ -~]/g, escaped);
const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
const rules = [actionRule(Decision.BLOCK, "x")];

describe("names that people give", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  /** Kinds of things that people name: gives one the name, and returns the name that it then has. */
  const GIVEN: Readonly<Record<string, (name: string) => Promise<string | undefined>>> = {
    department: async (name) => (await test.departments.createDepartment({ name })).department?.name,
    agent: async (name) => (await test.agents.registerAgent({ name })).agent?.name,
    mandate: async (name) => (await test.mandates.createMandate({ name, rules })).mandate?.name,
    pack: async (name) => (await test.mandates.applyPack({ name, mandates: [] })).pack?.name,
  };

  for (const name of NAMES.accepted) {
    it(`may be ${shown(name)}, kept as written.`, async () => {
      for (const [kind, give] of Object.entries(GIVEN)) expect(await give(` ${name} `), kind).to.equal(name);
    });
  }

  for (const { name, fault } of NAMES.refused) {
    it(`may not be ${shown(name)}, as is said of the field and the character.`, async () => {
      for (const [kind, give] of Object.entries(GIVEN)) {
        const { violations } = await failureOf(give(name));
        expect(violations[0]?.field, kind).to.equal("name");
        if (name !== "") expect(violations[0]?.description, kind).to.contain(fault);
      }
      const inPack = test.mandates.applyPack({
        name: "files",
        dryRun: true,
        mandates: [
          { name: "ok", rules },
          { name, rules },
        ],
      });
      expect((await failureOf(inPack)).violations[0]?.field).to.equal("mandates[1].name");
    });
  }

  const EXISTS = { department: "DEPARTMENT_EXISTS", mandate: "MANDATE_EXISTS" };
  for (const [first, second] of NAMES.equal) {
    it(`are one name as ${shown(first)} and ${shown(second)}.`, async () => {
      expect(comparableName(second)).to.equal(comparableName(first));
      expect(nameKey(second)).to.equal(nameKey(first));
      for (const [kind, reason] of Object.entries(EXISTS)) {
        const give = GIVEN[kind] as (name: string) => Promise<unknown>;
        const taken = await settledReason(give(`#1 ${first}`));
        expect(taken === undefined || taken === reason, taken).to.equal(true);
        expect(await reasonOf(give(`#1 ${second}`))).to.equal(reason);
      }
      const pack = await GIVEN.pack?.(`#1 ${first}`);
      expect(await GIVEN.pack?.(`#1 ${second}`)).to.equal(pack);
      expect((await test.mandates.getPack({ name: `#1 ${second}` })).pack?.name).to.equal(pack);
    });
  }

  for (const [first, second] of NAMES.distinct) {
    it(`are two as ${shown(first)} and ${shown(second)}.`, async () => {
      expect(comparableName(second)).not.to.equal(comparableName(first));
      expect(nameKey(second)).not.to.equal(nameKey(first));
      for (const name of [first, second]) await GIVEN.department?.(`two ${name}`);
    });
  }
});

/** Returns the reason with which a call failed; undefined if it did not. */
const settledReason = (call: Promise<unknown>): Promise<string | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => reasonOf(Promise.reject(error)),
  );

describe("names from before they were checked", () => {
  it("still load and work, are taken for others, and can be replaced, archived and deleted.", async () => {
    const test = await openWorkspace();
    try {
      const { mandate } = await test.mandates.createMandate({ name: "plain", rules });
      const twin = (await test.mandates.createMandate({ name: "plainer", rules })).mandate;
      const { department } = await test.departments.createDepartment({ name: "old" });
      const agentId = await test.agent();
      const old = { department: "P\u0430y\u200b", agent: "p\u202eay", mandate: "STRA\u00dfE", twin: "strasse" };
      await withOwner(test.url, async (owner) => {
        const rename =
          "update mandate_version set definition = jsonb_set(definition, '{name}', to_jsonb($2::text)) where mandate_id = $1";
        await owner.query(rename, [mandate?.mandateId, old.mandate]);
        await owner.query(rename, [twin?.mandateId, old.twin]);
        await owner.query("update department set name = $1", [old.department]);
        await owner.query("update agent set resource = jsonb_set(resource, '{name}', to_jsonb($1::text))", [old.agent]);
      });
      const cold = await test.replica();
      const { departmentId = "" } = department ?? {};
      const [mandateId, twinId] = [mandate?.mandateId ?? "", twin?.mandateId ?? ""];
      expect((await cold.departments.getDepartment({ departmentId })).department?.name).to.equal(old.department);
      expect((await cold.agents.getAgent({ agentId })).agent?.name).to.equal(old.agent);
      const blocked = await cold.enforcement.intercept({ agentId, actionType: "x" });
      expect([blocked.decision, [old.mandate, old.twin].includes(blocked.policyName ?? "")]).to.deep.equal([
        Decision.BLOCK,
        true,
      ]);
      // Its own name does not stand in the way of a change, though another has it too.
      const rule = actionRule(Decision.BLOCK, "y");
      await cold.mandates.updateMandate({ mandateId, name: old.mandate, rules: [...rules, rule] });
      expect(await reasonOf(cold.mandates.createMandate({ name: "Strasse", rules }))).to.equal("MANDATE_EXISTS");
      await cold.mandates.updateMandate({ mandateId, name: "new", rules });
      await cold.mandates.archiveMandate({ mandateId: twinId });
      await cold.mandates.createMandate({ name: "Strasse", rules });
      await cold.departments.deleteDepartment({ departmentId });
      await cold.agents.deactivateAgent({ agentId });
    } finally {
      await test.close();
    }
  });
});
