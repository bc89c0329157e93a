import { createHash } from "node:crypto";
import { create, type Message } from "@bufbuild/protobuf";
import { ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { Client, credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ListKind, ListService, type PutListResponse } from "../../gen/agentcontrol/v1/list_service_pb.js";
import {
  connectOutcome,
  grpcDecode,
  grpcEncode,
  grpcMetadata,
  grpcOutcome,
  grpcPath,
  type Outcome,
  restOutcome,
} from "../server/wires.ts";
import { startService, type TestService } from "../support/service.ts";

const MAX_VALUES = 100_000;
const MAX_BYTES = 4_194_304;
const MAX_LENGTH = 256;

/** As many values as a list may have, with as many bytes as they may have in all; the first are as long as a value may be. */
function wholeList(letter: string): string[] {
  const usual = Math.floor(MAX_BYTES / MAX_VALUES);
  let left = MAX_BYTES - usual * MAX_VALUES;
  return Array.from({ length: MAX_VALUES }, (_, index) => {
    const more = Math.min(left, MAX_LENGTH - usual);
    left -= more;
    return `${index} `.padEnd(usual + more, letter);
  });
}

const digestOf = (values: readonly string[]): string =>
  createHash("sha256")
    .update(JSON.stringify([...values].sort()))
    .digest("hex");

/** A list as a call answers it, or the error. */
type Put = (
  name: string,
  values: readonly string[],
) => Promise<{ size: number; digest: string; added: number } | Outcome>;

describe("a list of the most values and bytes", function () {
  this.timeout(120_000);
  let service: TestService;
  before(async () => {
    service = await startService();
  });
  after(() => service?.stop());

  const overRest: Put = async (name, values) => {
    const response = await fetch(`${service.http}/v1/enforce/lists/${name}`, {
      method: "PUT",
      headers: { "x-api-key": service.adminKey, "content-type": "application/json", "x-request-timeout-ms": "60000" },
      body: JSON.stringify({ kind: "text", values }),
    });
    if (!response.ok) return restOutcome(response);
    const { list, added } = (await response.json()) as { list: { size: number; digest: string }; added: number };
    return { size: list.size, digest: list.digest, added };
  };
  const over =
    (transportOf: (interceptors: Interceptor[]) => Transport): Put =>
    async (name, values) => {
      const withKey: Interceptor = (next) => (request) => {
        request.header.set("x-api-key", service.adminKey);
        return next(request);
      };
      try {
        const client = createClient(ListService, transportOf([withKey]));
        const request = { name, kind: ListKind.TEXT, values: [...values] };
        const { list, added } = await client.putList(request, { timeoutMs: 60_000 });
        return { size: list?.size ?? 0, digest: list?.digest ?? "", added };
      } catch (error) {
        return connectOutcome(ConnectError.from(error));
      }
    };
  const overGrpc: Put = (name, values) =>
    new Promise((resolve) => {
      const client = new Client(service.grpc, credentials.createInsecure());
      const { putList } = ListService.method;
      client.makeUnaryRequest(
        grpcPath(putList),
        grpcEncode(putList) as (message: Message) => Buffer,
        grpcDecode(putList),
        create(putList.input, { name, kind: ListKind.TEXT, values: [...values] }) as Message,
        grpcMetadata({ "x-api-key": service.adminKey }),
        { deadline: Date.now() + 60_000 },
        (error, answer) => {
          client.close();
          if (error !== null) return resolve(grpcOutcome(error));
          const { list, added } = answer as PutListResponse;
          resolve({ size: list?.size ?? 0, digest: list?.digest ?? "", added });
        },
      );
    });
  const http = () => ({ baseUrl: service.http, httpVersion: "1.1" }) as const;
  const zipped = { sendCompression: compressionGzip, acceptCompression: [compressionGzip] };
  const grpc = () => ({ baseUrl: `http://${service.grpc}` });
  const wires: Readonly<Record<string, Put>> = {
    REST: overRest,
    "Connect in JSON": over((interceptors) =>
      createConnectTransport({ ...http(), interceptors, useBinaryFormat: false }),
    ),
    "Connect in binary": over((interceptors) =>
      createConnectTransport({ ...http(), interceptors, useBinaryFormat: true }),
    ),
    "Connect in gzip": over((interceptors) => createConnectTransport({ ...http(), interceptors, ...zipped })),
    "gRPC-Web": over((interceptors) => createGrpcWebTransport({ ...http(), interceptors })),
    "gRPC-Web in JSON": over((interceptors) =>
      createGrpcWebTransport({ ...http(), interceptors, useBinaryFormat: false }),
    ),
    gRPC: overGrpc,
    "gRPC in gzip": over((interceptors) => createGrpcTransport({ ...grpc(), interceptors, ...zipped })),
  };

  for (const [index, [wire, put]] of Object.entries(wires).entries()) {
    it(`is put in one call over ${wire}, and no larger one.`, async () => {
      const name = `whole-${index}`;
      const values = wholeList(String.fromCharCode(97 + index));
      const one = { size: MAX_VALUES, digest: digestOf(values) };
      expect(await put(name, values)).to.deep.equal({ ...one, added: MAX_VALUES });
      expect(await put(name, values)).to.deep.equal({ ...one, added: 0 });
      const tooMany = (await put(name, [...values, "one more"])) as Outcome;
      expect([tooMany.reason, tooMany.metadata.field, tooMany.violations[0]?.description]).to.deep.equal([
        "INVALID_FIELD",
        "values",
        "must hold at most 100000 items",
      ]);
      const tooLong = (await put(name, [...values.slice(0, -1), "y".repeat(MAX_LENGTH)])) as Outcome;
      expect([tooLong.reason, tooLong.metadata.field]).to.deep.equal(["INVALID_FIELD", "values"]);
      expect(tooLong.message).to.match(/would make \d+ bytes; a list holds at most 4194304$/);
      await service.rest(`DELETE /v1/enforce/lists/${name}`);
    });

    it(`is the most that is decoded over ${wire}: more is refused by its field and the bound.`, async () => {
      const many = (await put(
        "many",
        Array.from({ length: 130_000 }, () => "x"),
      )) as Outcome;
      expect([many.code, many.reason]).to.deep.equal(["RESOURCE_EXHAUSTED", "BODY_TOO_LARGE"]);
      expect(many.metadata).to.deep.include({ field: "values", max_values: "120000" });
      expect(many.violations[0]?.field).to.equal("values");
      const large = (await put(
        "large",
        Array.from({ length: 70_000 }, () => "x".repeat(MAX_LENGTH)),
      )) as Outcome;
      expect([large.code, large.reason]).to.deep.equal(["RESOURCE_EXHAUSTED", "BODY_TOO_LARGE"]);
      expect(large.metadata).to.deep.include({ field: "values", max_bytes: "16777216" });
      expect((await put("small", ["x"])) as object).to.include({ size: 1 });
    });
  }

  it("is put with every character in an escape of JSON.", async () => {
    const values = Array.from({ length: 20_000 }, (_, index) => `${index} `.padEnd(106, "é"));
    const body = JSON.stringify({ kind: "text", values }).replaceAll("é", "\\u00e9");
    expect(body.length).to.be.above(3 * MAX_BYTES * 0.9);
    const response = await fetch(`${service.http}/v1/enforce/lists/escaped`, {
      method: "PUT",
      headers: { "x-api-key": service.adminKey, "content-type": "application/json" },
      body,
    });
    const { list } = (await response.json()) as { list: { digest: string } };
    expect(list.digest).to.equal(digestOf(values));
  });

  it("is added and removed in one call.", async () => {
    await service.rest("PUT /v1/enforce/lists/added", { kind: "text", values: [] });
    const values = wholeList("z");
    const { added } = await service.rest("POST /v1/enforce/lists/added:add", { values });
    const { removed } = await service.rest("POST /v1/enforce/lists/added:remove", { values });
    expect([added, removed]).to.deep.equal([MAX_VALUES, MAX_VALUES]);
    await service.rest("DELETE /v1/enforce/lists/added");
  });

  it("widens no other method's bounds, on no wire and for no compressed body.", async () => {
    const agentId = await service.agent();
    const action = { agentId, actionType: "send", actionContent: "x".repeat(1_100_000) };
    const withKey: Interceptor = (next) => (request) => {
      request.header.set("x-api-key", service.adminKey);
      return next(request);
    };
    const interceptors = [withKey];
    for (const transport of [
      createConnectTransport({ ...http(), interceptors }),
      createConnectTransport({ ...http(), interceptors, ...zipped }),
      createGrpcWebTransport({ ...http(), interceptors }),
      createGrpcTransport({ ...grpc(), interceptors }),
      createGrpcTransport({ ...grpc(), interceptors, ...zipped }),
    ]) {
      const { intercept } = createClient(EnforcementService, transport);
      const error = await intercept(action).then(() => undefined, ConnectError.from);
      const { reason, metadata, violations } = connectOutcome(error as ConnectError);
      expect([reason, metadata, violations]).to.deep.equal(["BODY_TOO_LARGE", { max_bytes: "1048576" }, []]);
    }
  });

  it("is no way past the roles: the body of a caller who may not change lists is not read.", async () => {
    const made = await service.rest("POST /v1/admin/keys", { name: "auditor", role: "auditor" });
    const { secret } = made as unknown as { secret: string };
    const response = await fetch(`${service.http}/v1/enforce/lists/mine`, {
      method: "PUT",
      headers: { "x-api-key": secret, "content-type": "application/json" },
      body: JSON.stringify({ kind: "text", values: wholeList("q") }),
    }).catch(() => undefined);
    expect(response?.status ?? 403).to.equal(403);
  });
});
