import { create, type DescMethod, type DescService } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import { expect } from "chai";
import { openApiFromServices } from "../../../src/server/rest/openapi.ts";
import { REASON_WORDS } from "../../../src/server/rest/openapi-errors.ts";
import { isRequired } from "../../../src/server/rest/openapi-schema.ts";
import { streamCases, UNARY_FILES, unaryCases } from "../../conformance/cases.ts";
import { METHODS, methodOf, SERVICES } from "../../conformance/methods.ts";
import { type Harness, startHarness } from "./harness.ts";

interface Reply {
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, { readonly examples?: object; readonly example?: unknown }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly description?: string;
  readonly example?: unknown;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly security?: unknown;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: Required<Pick<Reply, "content">>;
  readonly responses: Readonly<Record<string, Reply>>;
}

const errorExamples = ({ content }: Reply): object => content?.["application/json"]?.examples ?? {};

const methodNames = new Set(
  METHODS.filter(({ methodKind }) => methodKind !== "bidi_streaming").map(
    ({ parent, name }) => `${parent.name}_${name}`,
  ),
);

// Through text, as a client gets it.
const documentOf = async (services: readonly DescService[]) =>
  JSON.parse(JSON.stringify(await openApiFromServices(services, { title: "Plane", version: "v1" })));

const document = await documentOf(SERVICES);

function refsIn(node: unknown): string[] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([key, value]) => (key === "$ref" ? [String(value)] : refsIn(value)));
}

function resolveRef(root: unknown, ref: string): unknown {
  const steps = ref.replace("#/", "").split("/");
  return steps.reduce((node, step) => (node as Record<string, unknown> | undefined)?.[step], root);
}

describe("openApiFromServices", () => {
  const { paths } = document;
  const schema = (name: string) => document.components.schemas[name];
  const operations = Object.values<Record<string, Operation>>(paths).flatMap((item) => Object.values(item));
  const operationOf = (method: DescMethod): Operation | undefined =>
    operations.find(({ operationId }) => operationId === `${method.parent.name}_${method.name}`);

  it("names the version of OpenAPI, the interface and its services.", async () => {
    expect(document.openapi).to.equal("3.1.0");
    expect(document.info).to.include({ title: "Plane", version: "v1" });
    expect(document.servers[0].url).to.equal("/");
    const named = await openApiFromServices(SERVICES, {
      title: "Plane",
      version: "v1",
      publicUrl: "https://acp.example.com",
    });
    expect(named.servers[0]?.url).to.equal("https://acp.example.com");
    const tags = document.tags as { name: string; description: string }[];
    expect(tags.map(({ name }) => name)).to.include.members(SERVICES.map(({ name }) => name));
    expect(tags.filter(({ name, description }) => description === "" || description === name)).to.deep.equal([]);
  });

  it("resolves every reference.", () => {
    const refs = new Set(refsIn(document));
    expect(refs.size).to.be.greaterThan(50);
    for (const ref of refs) expect(resolveRef(document, ref), ref).to.be.an("object");
  });

  it("has every method once, at its documented path, with all its path parameters.", () => {
    const ids = operations.map(({ operationId }) => operationId);
    expect(new Set(ids).size).to.equal(ids.length);
    for (const [path, item] of Object.entries<Record<string, Operation>>(paths)) {
      for (const { parameters } of Object.values(item)) {
        const named = parameters.filter((each) => each.in === "path").map((each) => `{${each.name}}`);
        expect(path.match(/\{[^}]+\}/g) ?? []).to.deep.equal(named);
      }
    }
    const routed = METHODS.filter(({ methodKind }) => methodKind !== "bidi_streaming");
    expect(ids).to.include.members(routed.map((method) => `${method.parent.name}_${method.name}`));
    expect(paths["/v1/enforce/tools/{name}"]).to.have.property("get");
    expect(paths["/v1/enforce/webhooks/{webhook_id}:test"]).to.have.property("post");
    expect(Object.keys(paths).filter((path) => path.startsWith("/api/v1/"))).to.deep.equal([]);
  });

  it("notes further paths of an operation.", () => {
    const { description } = paths["/api/control/enforcement/escalations/{escalation_id}/resolve"].post;
    expect(description).to.include("Also served as `POST /v1/enforce/escalations/{escalation_id}/resolve`.");
    expect(document.info.description).to.include("with the prefix `/api`");
  });

  it("describes every operation, parameter and field in the words of the protos.", () => {
    const silent = operations.filter(({ summary, description }) => summary === "" || description === "");
    expect(silent.map(({ operationId }) => operationId)).to.deep.equal([]);
    const parameters = operations.flatMap((each) => each.parameters);
    expect(parameters.filter(({ description }) => !description)).to.deep.equal([]);
    expect(schema("InterceptRequest").properties.agent_id.description).to.equal("The agent that acts.");
    expect(schema("Decision").description).to.include("- `block`: The action must not happen.");
    expect(operationOf(methodOf("EscalationService.ResolveEscalation"))?.description).to.include(
      "Keys of the role `admin`, `operator` may call it.",
    );
  });

  it("requires of a request exactly the fields without which the rules of the proto refuse it.", () => {
    const validator = createValidator();
    for (const { input } of METHODS) {
      const result = validator.validate(input, create(input));
      if (result.kind === "error") throw result.error;
      const faults = result.kind === "valid" ? [] : result.violations.flatMap(({ field }) => field);
      const refused = input.fields.filter((field) => faults.includes(field)).map(({ name }) => name);
      expect(
        input.fields.filter(isRequired).map(({ name }) => name),
        input.name,
      ).to.deep.equal(refused);
    }
  });

  it("names every reason that the conformance cases provoke of a method.", () => {
    const missing = [...UNARY_FILES.flatMap(unaryCases), ...streamCases()].flatMap(({ call, error }) => {
      const operation = error?.reason === undefined ? undefined : operationOf(methodOf(call));
      if (operation === undefined) return [];
      return reasonsOf(operation).includes(error?.reason ?? "") ? [] : [`${call} ${error?.reason}`];
    });
    expect([...new Set(missing)]).to.deep.equal([]);
  });

  it("shows an error of every reason, each with its status, where a call gives it.", () => {
    const { examples, responses } = document.components;
    expect(Object.keys(examples)).to.deep.equal(REASON_WORDS);
    const given = new Set([...operations.flatMap(reasonsOf), ...Object.keys(errorExamples(responses.Error))]);
    expect(REASON_WORDS.filter((word) => !given.has(word))).to.deep.equal([]);
    for (const { responses: own } of operations) {
      for (const [status, reply] of Object.entries<Reply>(own)) {
        for (const word of Object.keys(errorExamples(reply)))
          expect(String(examples[word].value.error.code), word).to.equal(status);
      }
    }
  });

  function reasonsOf({ responses }: Operation): string[] {
    return Object.entries(responses).flatMap(([status, reply]) => {
      if (status === "default") return [];
      return Object.keys(errorExamples(reply.$ref === undefined ? reply : (resolveRef(document, reply.$ref) as Reply)));
    });
  }

  it("describes responses with every field required and null where a field can be unset.", () => {
    const { required, properties } = schema("Action");
    expect(required).to.deep.equal(Object.keys(properties));
    expect(schema("Escalation").properties.created_at).to.deep.include({
      type: ["string", "null"],
      format: "date-time",
    });
    const { decision, trust_score, escalation_id, decision_id } = schema("InterceptResponse").properties;
    expect(decision.anyOf).to.deep.include({ type: "null" });
    expect(trust_score).to.include({ type: "number", format: "double" });
    expect(escalation_id).to.deep.include({ type: ["string", "null"] });
    expect(decision_id).to.include({ type: "string" });
    const proof = schema("GetInclusionProofResponse").properties;
    expect(proof.tree_size.type).to.deep.equal(["integer", "string"]);
    expect(proof.audit_path).to.deep.include({ type: "array", items: { type: "string", contentEncoding: "base64" } });
  });

  it("describes requests as closed objects whose fields may be left out.", () => {
    expect(schema("InterceptRequest").additionalProperties).to.equal(false);
    expect(schema("InterceptRequest").required).to.deep.equal(["action_type", "agent_id"]);
    expect(schema("RegisterToolRequest").required).to.deep.equal(["name", "input_schema"]);
    const put = paths["/v1/enforce/mandates/{mandate_id}"].put.requestBody.content["application/json"].schema;
    expect(put.properties).to.have.property("rules");
    expect(put.properties).not.to.have.property("mandate_id");
  });

  it("says that a client may send back what the service set, which is ignored.", () => {
    const put = paths["/v1/enforce/mandates/{mandate_id}"].put.requestBody.content["application/json"].schema;
    expect(put.properties.version).to.deep.equal({ readOnly: true });
    expect(schema("Mandate").properties.version).to.include({ readOnly: true });
    expect(schema("CreateMandateRequest").properties).not.to.have.property("version");
  });

  it("names the key, in either header, as the security of every operation but the service's open pages.", () => {
    const { api_key, bearer, metrics_token } = document.components.securitySchemes;
    expect(api_key).to.include({ type: "apiKey", in: "header", name: "X-API-Key" });
    expect(bearer).to.include({ type: "http", scheme: "bearer" });
    expect(document.security).to.deep.equal([{ api_key: [] }, { bearer: [] }]);
    const apart = operations.filter(({ security }) => security !== undefined);
    const open = apart.filter(({ security }) => (security as unknown[]).length === 0).map((each) => each.operationId);
    expect(open).to.include("Service_Health").and.not.include("EnforcementService_Intercept");
    expect(open.every((id) => id.startsWith("Service_"))).to.equal(true);
    // The metrics have a token of their own besides.
    expect(metrics_token).to.include({ type: "http", scheme: "bearer" });
    expect(apart.filter(({ operationId }) => !open.includes(operationId))).to.have.lengthOf(1);
    expect(paths["/metrics"].get.security).to.deep.equal([{ metrics_token: [] }, { api_key: [] }, { bearer: [] }]);
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
    expect(required).to.equal(true);
    expect(content["application/json"].schema).to.have.all.keys("description");
  });

  it("describes streams in both their forms, and errors.", () => {
    const { responses } = paths["/v1/enforce/escalations:watch"].get;
    expect(Object.keys(responses["200"].content)).to.deep.equal(["application/x-ndjson", "text/event-stream"]);
    expect(resolveRef(document, responses.default.$ref)).to.have.nested.property("content.application/json.schema");
  });

  it("says the rules that JSON Schema can say.", () => {
    const { agent_id, request_id } = schema("InterceptRequest").properties;
    expect(agent_id).to.include({ type: "string", minLength: 1, maxLength: 64, pattern: "^[^\\x00]*$" });
    expect(request_id).to.include({ type: "string", format: "uuid" });
    const { events } = schema("CreateWebhookRequest").properties;
    expect(events).to.include({ type: "array", minItems: 1, maxItems: 20, uniqueItems: true });
    expect(events.items.enum).to.include("agent.revoked");
  });
});

describe("the examples of the document", () => {
  let harness: Harness;
  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());

  it("are requests that reach their service function.", async () => {
    const own = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([httpMethod, operation]) => ({ path, httpMethod, operation })),
    );
    const ofServices = own.filter(({ operation }) => methodNames.has(operation.operationId));
    expect(ofServices).to.have.length(methodNames.size);
    for (const { path, httpMethod, operation } of ofServices) {
      const { operationId, parameters, requestBody } = operation;
      const filled = parameters
        .filter((each) => each.in === "path")
        .reduce((text, { name, example }) => text.replace(`{${name}}`, encodeURIComponent(String(example))), path);
      const query = parameters
        .filter((each) => each.in === "query" && each.example !== undefined)
        .map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
      const ask = `${httpMethod.toUpperCase()} ${filled}${query.length > 0 ? `?${query.join("&")}` : ""}`;
      const body = requestBody?.content["application/json"]?.example;
      const answer = await harness.ask({ ask, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      expect([operationId, answer.status, answer.text].join(" "), ask).to.match(new RegExp(`^${operationId} 200`));
      expect(harness.calls.at(-1)?.rpc).to.equal(operationId.split("_")[1]);
    }
  });
});
