import { expect } from "chai";
import { MandateStatus } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { nameTest } from "../../src/registry/name-search.ts";
import { actionRule, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("the search by words of a name", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("finds every word in any order, as names compare.", () => {
    const cases: readonly (readonly [search: string, name: string, isFound: boolean])[] = [
      ["", "anything", true],
      ["  ", "anything", true],
      ["pay large", "Large payments", true],
      ["ＬＡＲＧＥ", "large payments", true],
      ["lar\u200bge", "large payments", true],
      ["STRASSE", "straße", true],
      ["large wires", "Large payments", false],
      ["%", "Large payments", false],
      ["__proto__", "Large payments", false],
      [".*", "Large payments", false],
    ];
    for (const [search, name, isFound] of cases)
      expect(nameTest(search)(name), `${search} in ${name}`).to.equal(isFound);
  });

  const create = async (name: string): Promise<string> => {
    const { mandate } = await test.mandates.createMandate({ name, rules: [actionRule(Decision.BLOCK, "x")] });
    return mandate?.mandateId ?? "";
  };

  it("pages through mandates, archived ones too, and refuses the token of another search.", async () => {
    for (let index = 0; index < 7; index++) {
      const mandateId = await create(`${index % 2 === 0 ? "Wires" : "Reads"} of team ${index}`);
      if (index > 3) await test.mandates.archiveMandate({ mandateId });
    }
    const namesOf = async (search: string, status: MandateStatus): Promise<string[]> => {
      const names: string[] = [];
      let pageToken = "";
      do {
        const page = await test.mandates.listMandates({ search, status, pageSize: 1, pageToken });
        names.push(...page.mandates.map(({ name }) => name));
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "");
      return names;
    };
    expect(await namesOf("wires TEAM", MandateStatus.ACTIVE)).to.deep.equal(["Wires of team 2", "Wires of team 0"]);
    expect(await namesOf("wires", MandateStatus.ARCHIVED)).to.deep.equal(["Wires of team 6", "Wires of team 4"]);
    expect(await namesOf("reads", MandateStatus.ARCHIVED)).to.deep.equal(["Reads of team 5"]);
    expect(await namesOf("none", MandateStatus.ARCHIVED)).to.deep.equal([]);
    const { nextPageToken = "" } = await test.mandates.listMandates({ search: "wires", pageSize: 1 });
    const other = test.mandates.listMandates({ search: "reads", pageSize: 1, pageToken: nextPageToken });
    expect(await reasonOf(other)).to.equal("INVALID_PAGE_TOKEN");
    expect(await reasonOf(test.mandates.listMandates({ search: "x".repeat(201) }))).to.equal("INVALID_FIELD");
  });
});
