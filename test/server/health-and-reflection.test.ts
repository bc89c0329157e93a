import { once } from "node:events";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { type Client, credentials, loadPackageDefinition, type ServiceError } from "@grpc/grpc-js";
import type { PackageDefinition } from "@grpc/proto-loader";
import { expect } from "chai";
import { healthService, loadedService } from "../support/loaded-proto.ts";
import { type Harness, startHarness } from "./harness.ts";

type AnyClient = Client &
  Record<
    string,
    (...given: unknown[]) => NodeJS.EventEmitter & { write(message: object): void; end(): void; cancel(): void }
  >;

function clientOf(service: unknown, port: number): AnyClient {
  const definition = loadPackageDefinition({ "x.Service": service } as PackageDefinition) as unknown as {
    x: { Service: new (address: string, credentials: unknown) => AnyClient };
  };
  return new definition.x.Service(`127.0.0.1:${port}`, credentials.createInsecure());
}

describe("gRPC health", () => {
  let harness: Harness;
  let client: AnyClient;

  before(async () => {
    harness = await startHarness();
    client = clientOf(healthService, harness.grpcPort);
  });
  after(async () => {
    client.close();
    await harness.stop();
  });

  const check = (service: string): Promise<{ status?: string; code?: number }> =>
    new Promise((resolve) => {
      client.check?.({ service }, (error: ServiceError | null, response: { status: string }) =>
        resolve(error === null ? { status: response.status } : { code: error.code }),
      );
    });

  it("checks the server and each service, and knows no other", async () => {
    expect(await check("")).to.deep.equal({ status: "NOT_SERVING" });
    harness.health.set(true);
    expect(await check("")).to.deep.equal({ status: "SERVING" });
    expect(await check("agentcontrol.v1.EnforcementService")).to.deep.equal({ status: "SERVING" });
    expect(await check("agentcontrol.v1.Nothing")).to.deep.equal({ code: 5 });
  });

  it("lists every service", async () => {
    harness.health.set(true);
    const list = (): Promise<{ statuses: Record<string, { status: string }> }> =>
      new Promise((resolve, reject) => {
        client.list?.({}, (error: ServiceError | null, response: { statuses: Record<string, { status: string }> }) =>
          error === null ? resolve(response) : reject(error),
        );
      });
    const { statuses } = await list();
    expect(statuses).to.deep.include({ "": { status: "SERVING" } });
    expect(Object.keys(statuses)).to.include("agentcontrol.v1.EnforcementService");
  });

  it("tells watchers of an unknown service that it is unknown, and keeps the watch", async () => {
    const call = client.watch?.({ service: "agentcontrol.v1.Nothing" }) as NodeJS.EventEmitter & { cancel(): void };
    const [{ status }] = (await once(call, "data")) as [{ status: string }];
    expect(status).to.equal("SERVICE_UNKNOWN");
    call.on("error", () => undefined);
    call.cancel();
  });

  it("tells watchers of every change, and ends them when the server closes", async () => {
    harness.health.set(true);
    const call = client.watch?.({ service: "" }) as NodeJS.EventEmitter;
    const told: string[] = [];
    const second = new Promise<void>((resolve) => {
      call.on("data", ({ status }: { status: string }) => {
        told.push(status);
        if (told.length === 1) harness.health.set(false);
        else resolve();
      });
    });
    await second;
    expect(told).to.deep.equal(["SERVING", "NOT_SERVING"]);
    const over = new Promise((resolve) => call.once("end", resolve));
    await harness.stop();
    await over;
  });
});

for (const version of ["v1", "v1alpha"])
  describe(`gRPC reflection ${version}`, () => {
    let harness: Harness;
    let client: AnyClient;

    before(async () => {
      harness = await startHarness();
      const service = `grpc.reflection.${version}.ServerReflection`;
      client = clientOf(loadedService(`grpc/reflection/${version}/reflection.proto`, service), harness.grpcPort);
    });
    after(async () => {
      client.close();
      await harness.stop();
    });

    const ask = (
      question: object,
    ): Promise<Record<string, { service: { name: string }[]; fileDescriptorProto: Buffer[] }>> =>
      new Promise((resolve, reject) => {
        const call = client.ServerReflectionInfo?.();
        call?.once("data", resolve).once("error", reject);
        call?.write(question);
        call?.end();
      });

    it("lists the services", async () => {
      const { listServicesResponse } = await ask({ listServices: "*" });
      expect(listServicesResponse?.service.map(({ name }) => name)).to.include.members([
        "agentcontrol.v1.EnforcementService",
        "agentcontrol.v1.EscalationService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
      ]);
    });

    const filesOf = async (question: object) => {
      const answer = await ask(question);
      const encoded = answer.fileDescriptorResponse?.fileDescriptorProto ?? [];
      return encoded.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
    };

    it("gives the file of a symbol, as it was written", async () => {
      const [file] = await filesOf({ fileContainingSymbol: "agentcontrol.v1.EnforcementService.Intercept" });
      expect(file?.name).to.equal("agentcontrol/v1/enforcement_service.proto");
      const request = file?.messageType.find(({ name }) => name === "InterceptRequest");
      expect(request?.field.find(({ name }) => name === "tool")?.proto3Optional).to.equal(true);
      const stream = file?.service[0]?.method.find(({ name }) => name === "InterceptStream");
      expect(stream).to.include({ clientStreaming: true, serverStreaming: true });
    });

    it("gives the file of an extension, and the numbers of a type's extensions", async () => {
      const containingType = "google.protobuf.MethodOptions";
      const { allExtensionNumbersResponse } = await ask({ allExtensionNumbersOfType: containingType });
      const { extensionNumber } = allExtensionNumbersResponse as unknown as { extensionNumber: number[] };
      expect(extensionNumber).to.include(72295728);
      const [file] = await filesOf({ fileContainingExtension: { containingType, extensionNumber: 72295728 } });
      expect(file?.name).to.equal("google/api/annotations.proto");
    });

    it("says what it does not know", async () => {
      for (const question of [
        { fileByFilename: "nothing.proto" },
        { fileContainingSymbol: "agentcontrol.v1.Nothing" },
        { fileContainingSymbol: "agentcontrol.v1.EnforcementService.Nothing" },
        { fileContainingExtension: { containingType: "google.protobuf.MethodOptions", extensionNumber: 1 } },
        { allExtensionNumbersOfType: "agentcontrol.v1.Nothing" },
      ]) {
        const { errorResponse } = await ask(question);
        expect(errorResponse).to.deep.include({ errorCode: 5 });
      }
    });

    it("gives every file that a file imports, by its name", async () => {
      const known = new Set<string>();
      const wanted = ["agentcontrol/v1/enforcement_service.proto", "agentcontrol/v1/escalation_service.proto"];
      for (let name = wanted.pop(); name !== undefined; name = wanted.pop()) {
        if (known.has(name)) continue;
        const [file] = await filesOf({ fileByFilename: name });
        expect(file?.name).to.equal(name);
        known.add(name);
        wanted.push(...(file?.dependency ?? []));
      }
      expect([...known]).to.include.members(["agentcontrol/v1/resources.proto", "google/protobuf/descriptor.proto"]);
    });
  });
