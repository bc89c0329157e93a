import { expect } from "chai";
import { asking, connectStateful, startGatewayProcess } from "./harness.ts";
import { startToolsServer, tool } from "./tools-server.ts";

describe("an MCP server that lists many tools", () => {
  it("is served up to 10,000 of them, while others are decided, and refused with one more.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const many = (count: number) => Array.from({ length: count }, (_, index) => tool(`tool_${index}`));
    const upstream = await startToolsServer(many(10_000));
    cleanup.defer(() => upstream.close());
    const gateway = await startGatewayProcess();
    cleanup.defer(async () => void (await gateway.stop()));
    await gateway.add("many", { url: upstream.url });
    const client = asking(await connectStateful(gateway.urlOf("many"), gateway.headers));
    let isListed = false;
    const listing = client.request({ method: "tools/list" }).finally(() => {
      isListed = true;
    });
    const waits: number[] = [];
    while (!isListed) {
      const before = performance.now();
      await gateway.rest("POST /v1/enforce/intercept", {
        agent_id: gateway.agentId,
        action_type: "read",
        action_content: "",
      });
      waits.push(performance.now() - before);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect((await listing).tools).to.have.length(10_000);
    expect(waits.length).to.be.above(10);
    console.log(`      ${waits.length} decisions meanwhile, the longest in ${Math.round(Math.max(...waits))} ms`);
    upstream.tools = many(10_001);
    const result = await client
      .request({ method: "tools/call", params: { name: "tool_1", arguments: {} } })
      .catch((error: Error) => error.message);
    expect(JSON.stringify(result)).to.contain("lists more than 10000 tools");
    await client.close();
  });
});
