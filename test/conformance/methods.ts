import { readdirSync } from "node:fs";
import { join } from "node:path";
import type {
  DescEnum,
  DescFile,
  DescMethod,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
} from "@bufbuild/protobuf";

const GENERATED = join(import.meta.dirname, "..", "..", "gen", "agentcontrol", "v1");

const isFile = (value: unknown): value is DescFile => (value as { kind?: string } | null)?.kind === "file";

const files: DescFile[] = [];
for (const name of readdirSync(GENERATED).filter((each) => each.endsWith("_pb.js"))) {
  const exported: Record<string, unknown> = await import(join(GENERATED, name));
  files.push(...Object.values(exported).filter(isFile));
}

/** Every service of the interface, read from the generated descriptors. */
export const SERVICES: readonly DescService[] = files.flatMap(({ services }) => services);
/** Every enum of the interface. */
export const ENUMS: readonly DescEnum[] = files.flatMap(({ enums }) => enums);
/** Every method of the interface. */
export const METHODS: readonly DescMethod[] = SERVICES.flatMap(({ methods }) => methods);

/** `AgentService.RegisterAgent`. */
export const nameOf = (method: DescMethod): string => `${method.parent.name}.${method.name}`;

/** The method of a name. Throws when there is none. */
export function methodOf(name: string): DescMethod {
  const method = METHODS.find((each) => nameOf(each) === name);
  if (method === undefined) throw new Error(`there is no method \`${name}\``);
  return method;
}

/** The unary method of a name. Throws when it is none. */
export function unaryMethodOf(name: string): DescMethodUnary {
  const method = methodOf(name);
  if (method.methodKind !== "unary") throw new Error(`\`${name}\` is a stream`);
  return method as DescMethodUnary;
}

/** The server stream of a name. Throws when it is none. */
export function streamMethodOf(name: string): DescMethodServerStreaming {
  const method = methodOf(name);
  if (method.methodKind !== "server_streaming") throw new Error(`\`${name}\` is no server stream`);
  return method as DescMethodServerStreaming;
}
