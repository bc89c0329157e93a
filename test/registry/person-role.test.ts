import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { roleUnderOwner } from "../../src/registry/person-role.ts";
import type { PersonRow } from "../../src/store/entities.ts";

const { ADMIN, OPERATOR, AUDITOR, AGENT } = Role;
const person = (facts: Partial<PersonRow>): PersonRow => ({ role: null, groupRole: null, ...facts }) as PersonRow;

const CASES: readonly (readonly [what: string, key: Role, owner: PersonRow | null, role: Role | undefined])[] = [
  ["its own, of an owner who never signed in", ADMIN, null, ADMIN],
  ["its own, of an owner with as many rights", OPERATOR, person({ role: OPERATOR }), OPERATOR],
  ["its own, of an owner with more rights", AUDITOR, person({ groupRole: ADMIN }), AUDITOR],
  ["its own, of an agent's key", AGENT, person({ groupRole: AUDITOR }), AGENT],
  ["the owner's, of fewer rights by groups", ADMIN, person({ groupRole: AUDITOR }), AUDITOR],
  [
    "the owner's, of fewer rights by an admin, whatever the groups",
    ADMIN,
    person({ role: OPERATOR, groupRole: ADMIN }),
    OPERATOR,
  ],
  ["its own, of an owner whose groups were never kept", OPERATOR, person({}), OPERATOR],
  ["none, of an owner whose groups give no role", AGENT, person({ checkedAtMs: 1 }), undefined],
  ["none, of an owner who left, whatever an admin gave", ADMIN, person({ role: ADMIN, leftAtMs: 1 }), undefined],
  ["none, of an owner who was deactivated", ADMIN, person({ role: ADMIN, deactivatedAtMs: 1 }), undefined],
];

describe("the role of a key by its owner", () => {
  for (const [what, key, owner, role] of CASES) {
    it(`is ${what}.`, () => {
      expect(roleUnderOwner(key, owner)).to.equal(role);
    });
  }
});
