import { loadSync, type PackageDefinition } from "@grpc/proto-loader";

const OPTIONS = { includeDirs: [new URL("../../proto", import.meta.url).pathname], longs: String, enums: String };

/** Loads a service of an official proto as a foreign client would, from its path below `proto/`. */
export function loadedService(path: string, service: string): PackageDefinition[string] {
  const loaded = loadSync(path, OPTIONS)[service];
  if (loaded === undefined) throw new Error(`${path} has no service ${service}`);
  return loaded;
}

export const healthService = loadedService("grpc/health/v1/health.proto", "grpc.health.v1.Health");
