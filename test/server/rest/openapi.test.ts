import type { DescService } from "@bufbuild/protobuf";
import { expect } from "chai";
import { openApiFromServices } from "../../../src/server/rest/openapi.ts";
import { METHODS, SERVICES } from "../../conformance/methods.ts";
import { apiAliases } from "./harness.ts";

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
}

// Through text, as a client gets it.
const documentOf = (services: readonly DescService[]) =>
  JSON.parse(JSON.stringify(openApiFromServices(services, { title: "Plane", version: "v1", aliases: apiAliases })));

function refsIn(node: unknown): string[] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) => (key === "$ref" ? [String(value)] : refsIn(value)));
}

function resolveRef(root: unknown, ref: string): unknown {
  const steps = ref.replace("#/", "").split("/");
  return steps.reduce((node, step) => (node as Record<string, unknown> | undefined)?.[step], root);
}

describe("openApiFromServices", () => {
  const document = documentOf(SERVICES);
  const { paths } = document;
  const requestSchema = (name: string) => document.components.schemas[`agentcontrol.v1.${name}-request`];
  const responseSchema = (name: string) => document.components.schemas[`agentcontrol.v1.${name}`];

  it("names the version of OpenAPI, the interface and its services.", () => {
    expect(document.openapi).to.equal("3.1.0");
    expect(document.info).to.deep.equal({ title: "Plane", version: "v1" });
    expect(document.tags).to.deep.equal(SERVICES.map(({ name }) => ({ name })));
  });

  it("resolves every reference.", () => {
    const refs = new Set(refsIn(document));
    expect(refs.size).to.be.greaterThan(50);
    for (const ref of refs) expect(resolveRef(document, ref), ref).to.be.an("object");
  });

  it("has every method, every path with an id of its own and all its path parameters.", () => {
    const ids: string[] = [];
    for (const [path, item] of Object.entries<Record<string, Operation>>(paths)) {
      for (const operation of Object.values(item)) {
        ids.push(operation.operationId);
        const named = operation.parameters.filter((each) => each.in === "path").map((each) => `{${each.name}}`);
        expect(path.match(/\{[^}]+\}/g) ?? []).to.deep.equal(named);
      }
    }
    expect(new Set(ids).size).to.equal(ids.length);
    const routed = METHODS.filter(({ methodKind }) => methodKind !== "bidi_streaming");
    expect(ids).to.include.members(routed.map((method) => `${method.parent.name}_${method.name}`));
    expect(paths["/api/v1/enforce/tools/{name}"]).to.have.property("get");
    expect(paths["/v1/enforce/webhooks/{webhook_id}:test"]).to.have.property("post");
    expect(paths).not.to.have.property("/api/api/control/enforcement/tools");
  });

  it("describes responses with every field required and null where a field can be unset.", () => {
    const { required, properties } = responseSchema("Action");
    expect(required).to.deep.equal(Object.keys(properties));
    expect(responseSchema("Escalation").properties.created_at).to.deep.equal({
      type: ["string", "null"],
      format: "date-time",
    });
    const { decision, trust_score, escalation_id, decision_id } = responseSchema("InterceptResponse").properties;
    expect(decision.anyOf).to.deep.include({ type: "null" });
    expect(trust_score).to.deep.equal({ type: "number", format: "double" });
    expect(escalation_id).to.deep.equal({ type: ["string", "null"] });
    expect(decision_id).to.deep.equal({ type: "string" });
    const proof = responseSchema("GetInclusionProofResponse").properties;
    expect(proof.tree_size.type).to.deep.equal(["integer", "string"]);
    expect(proof.audit_path).to.deep.equal({ type: "array", items: { type: "string", contentEncoding: "base64" } });
  });

  it("describes requests as closed objects whose fields may be left out.", () => {
    expect(requestSchema("InterceptRequest").additionalProperties).to.equal(false);
    expect(requestSchema("InterceptRequest")).not.to.have.property("required");
    expect(requestSchema("RegisterToolRequest").required).to.deep.equal(["input_schema"]);
    const put = paths["/v1/enforce/mandates/{mandate_id}"].put.requestBody.content["application/json"].schema;
    expect(put.properties).to.have.property("rules");
    expect(put.properties).not.to.have.property("mandate_id");
  });

  it("says that a client may send back what the service set, which is ignored.", () => {
    const put = paths["/v1/enforce/mandates/{mandate_id}"].put.requestBody.content["application/json"].schema;
    expect(put.properties.version).to.deep.equal({ readOnly: true });
    expect(responseSchema("Mandate").properties.version).to.include({ readOnly: true });
    expect(requestSchema("CreateMandateRequest").properties).not.to.have.property("version");
  });

  it("names the key, in either header, as the security of every operation.", () => {
    const { api_key, bearer } = document.components.securitySchemes;
    expect(api_key).to.include({ type: "apiKey", in: "header", name: "X-API-Key" });
    expect(bearer).to.include({ type: "http", scheme: "bearer" });
    for (const item of Object.values<Record<string, { security: unknown }>>(paths)) {
      for (const { security } of Object.values(item)) expect(security).to.deep.equal([{ api_key: [] }, { bearer: [] }]);
    }
  });

  it("lists query parameters.", () => {
    const { parameters } = paths["/v1/enforce/decisions"].get;
    expect(parameters.map((each: { name: string }) => each.name)).to.include.members([
      "page_size",
      "decision",
      "since",
    ]);
    const size = parameters.find((each: { name: string }) => each.name === "page_size");
    expect(size).to.deep.include({
      in: "query",
      required: false,
      schema: { type: "integer", format: "int32", minimum: 0, maximum: 500 },
    });
  });

  it("describes a body that is one field.", () => {
    const { required, content } = paths["/api/control/enforcement/tools"].post.requestBody;
    expect([required, content["application/json"].schema]).to.deep.equal([true, {}]);
  });

  it("describes streams in both their forms, and errors.", () => {
    const { responses } = paths["/v1/enforce/escalations:watch"].get;
    expect(Object.keys(responses["200"].content)).to.deep.equal(["application/x-ndjson", "text/event-stream"]);
    expect(resolveRef(document, responses.default.$ref)).to.have.nested.property("content.application/json.schema");
  });

  it("says the rules that JSON Schema can say.", () => {
    const { agent_id, request_id } = requestSchema("InterceptRequest").properties;
    expect(agent_id).to.deep.equal({ type: "string", minLength: 1, maxLength: 64, pattern: "^[^\\x00]*$" });
    expect(request_id).to.deep.equal({ type: "string", format: "uuid" });
    const { events } = requestSchema("CreateWebhookRequest").properties;
    expect(events).to.include({ type: "array", minItems: 1, maxItems: 20, uniqueItems: true });
    expect(events.items.enum).to.include("agent.revoked");
  });
});
