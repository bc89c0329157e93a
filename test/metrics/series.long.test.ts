import { expect } from "chai";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { metricsText, samplesFrom } from "../support/metrics.ts";
import { startService, type TestService } from "../support/service.ts";

/** Different values of each kind. `SERIES=10000` takes three minutes. */
const COUNT = Number(process.env.SERIES ?? 2_000);
/** Callers at once. */
const LANES = 32;

describe("the series of metrics", function () {
  this.timeout(1_800_000);
  let service: TestService;
  before(async () => {
    const conditions = { matchActionTypes: ["blocked.*"] };
    service = await startService({ rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, conditions }] });
  });
  after(() => service?.stop());

  async function send(path: string, more: Readonly<Record<string, string>>, body?: object): Promise<Response> {
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json", ...more };
    const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(service.http + path, init);
    await response.arrayBuffer();
    return response;
  }

  /** Has an agent of its own act, call a tool of its own, and ask at a path of its own, over a program of its own. */
  async function act(index: number): Promise<number[]> {
    const caller = { "user-agent": `program-${index}/1.0` };
    const agentId = await service.agent(`agent ${index}`);
    const action = {
      agent_id: agentId,
      action_type: `${index % 2 === 0 ? "blocked" : "note"}.type-${index}`,
      action_content: "",
    };
    const event = { hook_event_name: "PreToolUse", tool_name: `tool-${index}`, tool_input: {} };
    const responses = [
      await send("/v1/enforce/intercept", caller, action),
      await send("/v1/hooks/claude-code", { ...caller, "x-agent-id": agentId }, event),
      await send(`/v1/enforce/nothing-${index}`, caller),
      await send(`/nothing-${index}`, caller),
    ];
    return responses.map(({ status }) => status);
  }

  /** Names and labels of all series of the service, but those of its runtime. */
  async function series(): Promise<readonly string[]> {
    const samples = samplesFrom(await metricsText(service.http)).filter(({ name }) => name.startsWith("acp_"));
    return samples.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`).sort();
  }

  it(`are as many after ${COUNT} agents, action types, tools, programs and paths as after a few.`, async () => {
    for (let index = 0; index < 7; index++) expect(await act(index)).to.deep.equal([200, 200, 404, 404]);
    const few = await series();
    let next = 7;
    const lane = async (): Promise<void> => {
      for (let index = next++; index < COUNT; index = next++) {
        expect(await act(index)).to.deep.equal([200, 200, 404, 404]);
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    const many = await series();
    console.log(`      ${many.length} series`);
    expect(many).to.deep.equal(few);
    expect(many.length).to.be.below(1_000);
  });
});
