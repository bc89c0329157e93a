import type { DescEnum } from "@bufbuild/protobuf";
import { expect } from "chai";
import { AgentStatusSchema } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { MandateModeSchema, MandateStatusSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { DecisionPathSchema, DecisionSchema, ScopeSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import * as words from "../../src/api/words.ts";

const TABLES: readonly {
  readonly schema: DescEnum;
  readonly enumOf: (word: never) => number;
  readonly wordOf?: (value: never) => string | undefined;
}[] = [
  { schema: DecisionSchema, enumOf: words.decisionEnum, wordOf: words.decisionWord },
  { schema: DecisionPathSchema, enumOf: words.decisionPathEnum },
  { schema: ScopeSchema, enumOf: words.scopeEnum, wordOf: words.scopeWord },
  { schema: AgentStatusSchema, enumOf: words.agentStatusEnum, wordOf: words.agentStatusWord },
  { schema: MandateModeSchema, enumOf: words.mandateModeEnum, wordOf: words.mandateModeWord },
  { schema: MandateStatusSchema, enumOf: words.mandateStatusEnum, wordOf: words.mandateStatusWord },
];

describe("words", () => {
  for (const { schema, enumOf, wordOf } of TABLES) {
    it(`have one for every value of ${schema.name}, the value's own name.`, () => {
      for (const { number, localName } of schema.values) {
        const word = localName.toLowerCase();
        expect(enumOf(word as never)).to.equal(number === 0 ? undefined : number);
        if (wordOf !== undefined) expect(wordOf(number as never)).to.equal(number === 0 ? undefined : word);
      }
    });
  }
});
