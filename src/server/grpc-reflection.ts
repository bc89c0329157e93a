import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import type { Server } from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";
import { service as healthService } from "grpc-health-check";

type PackageDefinition = ConstructorParameters<typeof ReflectionService>[0];

/** Adds gRPC reflection, v1 and v1alpha: clients list the services and read their files without a copy of them. */
export function addReflection(server: Server, services: readonly DescService[]): void {
  const files = new Map<string, DescFile>();
  for (const { file } of services) collect(file, files);
  const descriptors = [...files.values()].map(({ proto }) => Buffer.from(toBinary(FileDescriptorProtoSchema, proto)));
  // The package reads nothing of a package definition but the encoded files in it.
  const definition = { ours: { fileDescriptorProtos: [...descriptors, ...healthFiles()] } };
  new ReflectionService(definition as unknown as PackageDefinition).addToServer(server);
}

function collect(file: DescFile, files: Map<string, DescFile>): void {
  if (files.has(file.proto.name)) return;
  files.set(file.proto.name, file);
  for (const dependency of file.dependencies) collect(dependency, files);
}

function healthFiles(): readonly Buffer[] {
  const { requestType } = healthService.Check as unknown as { requestType: { fileDescriptorProtos: Buffer[] } };
  return requestType.fileDescriptorProtos;
}
