import { expect } from "chai";
import { withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { drawFrom, publishRandomly, randomPlan } from "./plans.ts";

interface Step {
  readonly [member: string]: unknown;
}

/** Removes when limits have room again: the intercepts that a preflight foresees come later. */
const withoutTimes = (json: unknown): unknown =>
  JSON.parse(JSON.stringify(json, (name, value) => (name === "resets_at" ? undefined : value)));

describe("a preflight on one of three started servers", function () {
  this.timeout(300_000);

  for (const seed of [1, 2]) {
    it(`is what the intercepts after it come to, on any of them (${seed}).`, () =>
      withWorkspace({}, async (workspace) => {
        const below = seededBelow(300 + seed);
        const servers: TestServer[] = [];
        const agents = await workspace.newAgents(3);
        await workspace.department(...agents);
        await publishRandomly(workspace, below);
        const send = async (path: string, body?: object): Promise<Record<string, Step>> => {
          const headers = { "x-api-key": workspace.adminKey, "content-type": "application/json" };
          const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
          return (await fetch(drawFrom(below, servers).http + path, { headers, ...sent })).json() as never;
        };
        const bodyOf = ({ actionType, actionContent, tool, metadata }: ReturnType<typeof randomPlan>[number]) => ({
          action_type: actionType,
          action_content: actionContent,
          metadata,
          ...(tool !== undefined && { tool }),
        });
        try {
          while (servers.length < 3) servers.push(await startServer({ databaseUrl: workspace.url }));
          for (const step of randomPlan(below, 15)) {
            await send("/v1/enforce/intercept", { agent_id: drawFrom(below, agents), ...bodyOf(step) });
          }
          const agent_id = drawFrom(below, agents);
          const plan = randomPlan(below, 25).map(bodyOf);
          const { preflight } = await send("/v1/enforce/preflight", { agent_id, steps: plan });
          const foreseen = preflight?.steps as readonly Step[];
          expect(foreseen.length).to.equal(plan.length);
          for (const [index, step] of plan.entries()) {
            const reply: Step = await send("/v1/enforce/intercept", { agent_id, ...step });
            const { receipt } = await send(`/v1/enforce/decisions/${reply.decision_id}`);
            const { decision, decision_path, policy_name, reasons } = reply;
            const { trust, authorisation } = receipt as { trust: Step; authorisation: Step };
            expect(withoutTimes(foreseen[index])).to.deep.include({
              index,
              decision,
              decision_path,
              policy_name,
              reasons: withoutTimes(reasons),
              trust_before: trust.before,
              trust_after: trust.after,
              collective_limits: withoutTimes(authorisation.collective_limits),
            });
          }
        } finally {
          for (const server of servers) await server.stop();
        }
      }));
  }
});
