import { request } from "node:http";
import { expect } from "chai";
import { startService, type TestService } from "../../support/service.ts";

type Json = Record<string, object>;

const RULES = [{ type: "trust", decision: "block", conditions: { below: 20 } }];

describe("REST with what it gave", () => {
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service.stop());

  async function call(ask: string, body?: object): Promise<{ status: number; json: Json }> {
    const [method = "", path = ""] = ask.split(" ");
    const headers = { "x-api-key": service.adminKey, "content-type": "application/json" };
    const response = await fetch(service.http + path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
    });
    return { status: response.status, json: (await response.json()) as Json };
  }

  /** Asks for a path as it is: `fetch` would resolve its dots. */
  function rawGet(path: string): Promise<{ status: number | undefined; text: string }> {
    return new Promise((resolve, reject) => {
      const headers = { "x-api-key": service.adminKey };
      const asked = request(`${service.http}/`, { path, headers }, async (response) => {
        let text = "";
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode, text });
      });
      asked.on("error", reject).end();
    });
  }

  it("takes back a mandate, a workspace and a webhook as they were read.", async () => {
    const made = (await call("POST /v1/enforce/mandates", { name: "low trust", rules: RULES })).json;
    const path = `/v1/enforce/mandates/${(made as unknown as { mandate: { mandate_id: string } }).mandate.mandate_id}`;
    const { mandate } = (await call(`GET ${path}`)).json;
    const put = await call(`PUT ${path}`, mandate);
    expect(put.status, JSON.stringify(put.json)).to.equal(200);
    expect(put.json.mandate).to.deep.equal(mandate);
    const renamed = await call(`PUT ${path}`, { ...mandate, name: "renamed", version: 70, status: "x" });
    expect(renamed.json.mandate).to.include({ name: "renamed", version: 2, status: "active" });

    const { workspaces } = (await call("GET /v1/admin/workspaces")).json as { workspaces?: object[] };
    const [workspace] = workspaces ?? [];
    const patched = await call("PATCH /v1/admin/workspaces/default", workspace);
    expect([patched.status, patched.json.workspace]).to.deep.equal([200, workspace]);

    const hook = { url: "https://93.184.216.34/hook", events: ["agent.revoked"] };
    const { webhook } = (await call("POST /v1/enforce/webhooks", hook)).json as unknown as {
      webhook: { webhook_id: string };
    };
    const changed = await call(`PATCH /v1/enforce/webhooks/${webhook.webhook_id}`, webhook);
    expect([changed.status, changed.json.webhook]).to.deep.equal([200, webhook]);

    const target = { url: "https://93.184.216.34/leaks" };
    const leaks = (await call("POST /api/redact/default/webhooks", target)).json as unknown as {
      webhook: { id: string };
    };
    const leaksPath = `PATCH /api/redact/default/webhooks/${leaks.webhook.id}`;
    const same = await call(leaksPath, leaks.webhook);
    expect([same.status, same.json.webhook]).to.deep.equal([200, leaks.webhook]);
    const moved = { url: "https://93.184.216.34/other", is_active: false };
    const sentElsewhere = await call(leaksPath, { ...leaks.webhook, ...moved });
    expect(sentElsewhere.json.webhook).to.deep.equal({ ...leaks.webhook, ...moved });
    const inside = await call(leaksPath, { url: "http://127.0.0.1/" });
    expect([inside.status, JSON.stringify(inside.json)].join()).to.contain("TARGET_NOT_ALLOWED");

    const settings = "/api/redact/default/settings";
    const read = (await call(`GET ${settings}`)).json;
    const replaced = await call(`PUT ${settings}`, read.settings);
    expect([replaced.status, replaced.json]).to.deep.equal([200, { ...read, llm_key_dropped: false }]);
  });

  it("tells all faults of a mandate beside its misspelt words, over REST and as Connect's JSON.", async () => {
    const restRules = [
      { type: "trust", decision: "blok", conditions: { below: 5 } },
      {
        type: "metadata",
        decision: "block",
        conditions: { rules: [{ field: "a", operator: ">>", on_missing: "ignroe" }] },
      },
    ];
    const connectRules = [
      { type: "RULE_TYPE_TRUST", decision: "DECISION_BLOK", conditions: { below: 5 } },
      {
        type: "RULE_TYPE_METADATA",
        decision: "DECISION_BLOCK",
        conditions: { rules: [{ field: "a", operator: ">>", onMissing: "ON_MISSING_IGNROE" }] },
      },
    ];
    const faultsOf = ({ json }: { json: Json }) =>
      (json.violations as { path: string; reason: string }[]).map(({ path, reason }) => `${path} ${reason}`);
    const overRest = faultsOf(await call("POST /v1/enforce/mandates:compile", { rules: restRules }));
    expect(overRest.map((fault) => fault.split(" ")[1])).to.include.members([
      "DECISION_MISSING",
      "ON_MISSING_UNKNOWN",
      "OPERATOR_UNKNOWN",
    ]);
    const method = "POST /agentcontrol.v1.MandateService/CompileMandate";
    expect(faultsOf(await call(method, { rules: connectRules }))).to.deep.equal(overRest);
    const unknown = await call(method, { rules: [{ typ: "RULE_TYPE_TRUST", decision: "DECISION_BLOK" }] });
    expect([unknown.status, JSON.stringify(unknown.json)].join())
      .to.contain("400")
      .and.to.contain("UNKNOWN_FIELD");
  });

  it("refuses any other member, and output-only ones where nothing is replaced.", async () => {
    const draft = { name: "strict", rules: RULES };
    const { status, json } = await call("POST /v1/enforce/mandates", { ...draft, version: 1 });
    expect([status, JSON.stringify(json)].join())
      .to.contain("400")
      .and.to.contain("UNKNOWN_FIELD");
    const { mandate } = (await call("POST /v1/enforce/mandates", draft)).json as unknown as {
      mandate: { mandate_id: string };
    };
    const put = await call(`PUT /v1/enforce/mandates/${mandate.mandate_id}`, { ...mandate, versoin: 1 });
    expect([put.status, JSON.stringify(put.json)].join())
      .to.contain("400")
      .and.to.contain("`versoin`");
  });

  it("finds a tool with a slash in its name, however the slash is written, and decodes once.", async () => {
    await call("POST /v1/enforce/tools", { name: "fs/read", input_schema: { type: "object" } });
    for (const path of ["fs/read", "fs%2Fread", "fs%2fread", "%66s%2Fread"]) {
      const { status, text } = await rawGet(`/v1/enforce/tools/${path}`);
      expect([status, JSON.parse(text).tool?.name], path).to.deep.equal([200, "fs/read"]);
    }
    for (const path of ["fs%252Fread", "..", "%2e%2e", ".", "fs/../fs/read", "..%2Fagents", "fs%5Cread"]) {
      const { status, text } = await rawGet(`/v1/enforce/tools/${path}`);
      expect([status, text].join(), path).to.contain("404").and.to.contain("TOOL_NOT_FOUND");
    }
    expect((await rawGet("/v1/enforce/tools/fs%2")).text).to.contain("malformed percent-escape");
  });

  it("registers no tool that is a step of a path.", async () => {
    for (const name of [".", "..", "../x", "./x"]) {
      const { status, json } = await call("POST /v1/enforce/tools", { name, input_schema: { type: "object" } });
      expect([status, JSON.stringify(json)].join(), name)
        .to.contain("400")
        .and.to.contain('"field":"name"');
    }
  });
});
