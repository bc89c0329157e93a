import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { reasonOf, withWorkspace } from "../support/harness.ts";

const schema = (type: string) => ({ type: "object", properties: { amount: { type } } });
const definition = (json: JsonValue) => fromJson(ValueSchema, json);

describe("a paste that is tried", () => {
  it("shows the versions that it would make, and makes none.", () =>
    withWorkspace({}, async ({ tools, log }) => {
      await tools.registerTool({ name: "Pay", description: "pays", inputSchema: schema("number") });
      const { seq: before } = await log.caughtUp();
      const paste = definition([
        { name: "pay", inputSchema: schema("string") },
        { name: "PAY", inputSchema: schema("number") },
        { name: "new", input_schema: schema("integer") },
      ]);
      const tried = await tools.pasteTool({ definition: paste, dryRun: true }).catch((error: unknown) => error);
      // Two schemas for one tool are refused, tried or not.
      expect(tried).to.be.instanceOf(Error);
      const two = definition([
        { name: "pay", inputSchema: schema("string") },
        { name: "new", input_schema: schema("integer") },
      ]);
      const { tools: shown } = await tools.pasteTool({ definition: two, dryRun: true });
      expect(shown.map(({ created, tool }) => [created, tool?.name, tool?.version, tool?.description])).to.deep.equal([
        [true, "Pay", 2, "pays"],
        [true, "new", 1, ""],
      ]);
      expect(shown[0]?.tool?.arguments.map(({ path, types }) => [path, types])).to.deep.equal([["amount", ["string"]]]);
      expect((await log.caughtUp()).seq).to.equal(before);
      const real = await tools.pasteTool({ definition: two });
      expect(real.tools.map(({ tool }) => tool?.digest)).to.deep.equal(shown.map(({ tool }) => tool?.digest));
      const again = await tools.pasteTool({ definition: two, dryRun: true });
      expect(again.tools.map(({ created }) => created)).to.deep.equal([false, false]);
    }));

  it("is refused as a real one is.", () =>
    withWorkspace({}, async ({ tools }) => {
      const bad = definition({ name: "bad", inputSchema: { type: 5 } });
      expect(await reasonOf(tools.pasteTool({ definition: bad, dryRun: true }))).to.equal("SCHEMA_INVALID");
      expect(await reasonOf(tools.pasteTool({ definition: definition(7), dryRun: true }))).to.equal(
        "PASTE_NOT_RECOGNISED",
      );
    }));
});
