import {
  create,
  createRegistry,
  type DescExtension,
  type DescFile,
  type DescMethod,
  type DescService,
  type MessageInitShape,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import {
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
  ServerReflection as V1,
} from "../../../gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as V1Alpha } from "../../../gen/grpc/reflection/v1alpha/reflection_pb.js";
import { methodName } from "../endpoints.ts";
import { oncePerServices } from "../once-per-services.ts";
import type { OperatorAccess } from "../operator-access.ts";
import { decodeBinary } from "../validation.ts";
import type { GrpcExchange, GrpcMethod } from "./exchange.ts";

/** Bounds of a request. */
const BOUNDS = { maxBytes: 16_384, maxValues: 64 };
const MAX_DEPTH = 8;

/** Both versions of reflection, whose messages are the same. */
export const REFLECTION_SERVICES: readonly DescService[] = [V1, V1Alpha];

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

/** Creates the methods of reflection, v1 and v1alpha, which tell callers with access about services and their proto files. */
export function reflectionMethods(
  services: readonly DescService[],
  operators: Pick<OperatorAccess, "assertAllowed">,
): ReadonlyMap<string, GrpcMethod> {
  const descriptions = descriptionsOf(services);
  const methodFor = (method: DescMethod): [string, GrpcMethod] => {
    const path = `/${methodName(method)}`;
    const serve = async (exchange: GrpcExchange): Promise<void> => {
      try {
        await operators.assertAllowed(operatorRequest(exchange, path));
        await converse(exchange, descriptions);
      } catch (error) {
        exchange.fail(error);
      }
    };
    return [path, { serve }];
  };
  return new Map(REFLECTION_SERVICES.flatMap(({ methods }) => methods.map(methodFor)));
}

function operatorRequest(exchange: GrpcExchange, method: string): Parameters<OperatorAccess["assertAllowed"]>[0] {
  const { address, requestId, headers } = exchange;
  return { address, requestId, method, headerNames: Object.keys(headers), header: (name) => exchange.header(name) };
}

async function converse(exchange: GrpcExchange, descriptions: Descriptions): Promise<void> {
  const messages = exchange.read({ bounds: BOUNDS, count: () => undefined });
  exchange.begin();
  for (let bytes = await messages.next(); bytes !== undefined; bytes = await messages.next()) {
    const request = decodeBinary(ServerReflectionRequestSchema, bytes, MAX_DEPTH, BOUNDS) as ServerReflectionRequest;
    const init = { validHost: request.host, originalRequest: request, messageResponse: descriptions.answer(request) };
    const response = create(ServerReflectionResponseSchema, init);
    if (!exchange.send(toBinary(ServerReflectionResponseSchema, response))) await exchange.drained();
  }
  exchange.finish();
}

const descriptionsOf = oncePerServices((services) => new Descriptions(services));

/** Descriptors of services, with every file that they need. */
class Descriptions {
  readonly #services: readonly DescService[];
  readonly #files: ReadonlyMap<string, DescFile>;
  readonly #registry: Registry;

  constructor(services: readonly DescService[]) {
    const files = new Set<DescFile>();
    for (const { file } of services) collect(file, files);
    this.#services = services;
    this.#files = new Map([...files].map((file) => [file.proto.name, file]));
    this.#registry = createRegistry(...files);
  }

  answer({ messageRequest: { case: kind, value } }: ServerReflectionRequest): Answer {
    switch (kind) {
      case "listServices": {
        const service = this.#services.map(({ typeName: name }) => ({ name }));
        return { case: "listServicesResponse", value: { service } };
      }
      case "fileByFilename":
        return answerWith(this.#files.get(value), `file \`${value}\``);
      case "fileContainingSymbol":
        return answerWith(this.#fileOf(value), `symbol \`${value}\``);
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = value;
        const extension = this.#extensionsOf(containingType).find(({ number }) => number === extensionNumber);
        return answerWith(extension?.file, `extension ${extensionNumber} of \`${containingType}\``);
      }
      case "allExtensionNumbersOfType": {
        const extensionNumber = this.#extensionsOf(value).map(({ number }) => number);
        if (extensionNumber.length === 0) return notFound(`extensions of \`${value}\``);
        return { case: "allExtensionNumbersResponse", value: { baseTypeName: value, extensionNumber } };
      }
      default:
        return errorResponse(Code.Unimplemented, "the request asks nothing that is known");
    }
  }

  /** Returns the file of a type, a service, or a method of one. */
  #fileOf(symbol: string): DescFile | undefined {
    const type = this.#registry.get(symbol);
    if (type !== undefined) return type.file;
    const dot = symbol.lastIndexOf(".");
    const service = this.#registry.getService(symbol.slice(0, dot));
    return service?.methods.some(({ name }) => name === symbol.slice(dot + 1)) ? service.file : undefined;
  }

  #extensionsOf(typeName: string): readonly DescExtension[] {
    return [...this.#registry].filter(
      (type) => type.kind === "extension" && type.extendee.typeName === typeName,
    ) as readonly DescExtension[];
  }
}

/** Answers with a file and all that it imports. */
function answerWith(file: DescFile | undefined, asked: string): Answer {
  if (file === undefined) return notFound(asked);
  const files = new Set<DescFile>();
  collect(file, files);
  const fileDescriptorProto = [...files].map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

const notFound = (asked: string): Answer => errorResponse(Code.NotFound, `no ${asked}`);

const errorResponse = (errorCode: Code, errorMessage: string): Answer => ({
  case: "errorResponse",
  value: { errorCode, errorMessage },
});

function collect(file: DescFile, files: Set<DescFile>): void {
  if (files.has(file)) return;
  files.add(file);
  for (const dependency of file.dependencies) collect(dependency, files);
}
