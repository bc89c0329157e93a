import type { DescEnum } from "@bufbuild/protobuf";
import { expect } from "chai";
import { AgentStatusSchema } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityStatusSchema } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { MandateModeSchema, MandateStatusSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { DecisionPathSchema, DecisionSchema, ScopeSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import * as mappings from "../../src/api/enum-mapping.ts";

const CASES: readonly { readonly schema: DescEnum; readonly mapping: mappings.EnumMapping<string, number> }[] = [
  { schema: DecisionSchema, mapping: mappings.decisionMapping },
  { schema: DecisionPathSchema, mapping: mappings.decisionPathMapping },
  { schema: ScopeSchema, mapping: mappings.scopeMapping },
  { schema: AgentStatusSchema, mapping: mappings.agentStatusMapping },
  { schema: AuthorityStatusSchema, mapping: mappings.authorityStatusMapping },
  { schema: MandateModeSchema, mapping: mappings.mandateModeMapping },
  { schema: MandateStatusSchema, mapping: mappings.mandateStatusMapping },
];

describe("enum mappings", () => {
  for (const { schema, mapping } of CASES) {
    it(`map every value of ${schema.name} to its own name in lower case, except UNSPECIFIED.`, () => {
      for (const { number, localName } of schema.values) {
        const name = number === 0 ? undefined : localName.toLowerCase();
        expect(mapping.fromProto(number)).to.equal(name);
        if (name !== undefined) expect(mapping.toProto[name]).to.equal(number);
      }
    });
  }
});
