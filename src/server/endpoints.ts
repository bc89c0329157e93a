import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { CallContext } from "../api/context.ts";
import type { ServiceDefinition } from "../api/service.ts";
import { type AccessRule, accessRuleOf } from "./admit.ts";
import type { MethodMetrics } from "./metrics.ts";
import type { RequestCheck } from "./request-check.ts";

/** A method with everything that a call of it needs, looked up once at start. */
export interface Endpoint {
  readonly method: DescMethod;
  /** `package.Service/Method`. */
  readonly name: string;
  readonly access: AccessRule;
  readonly check: RequestCheck;
  readonly metrics: MethodMetrics;
  /** The service function; takes the request, or the requests of a bidirectional stream. */
  readonly serve: (request: unknown, context: CallContext) => unknown;
}

/** What every endpoint is made from. */
export interface EndpointParts {
  readonly checkOf: (schema: DescMessage) => RequestCheck;
  readonly metricsOf: (method: string) => MethodMetrics;
}

/**
 * Builds the endpoint of every method of every service. Throws an `Error` for a method without `access`, one
 * without a function, one that streams requests only, and for a service that is given twice.
 */
export function createEndpoints(
  services: readonly ServiceDefinition[],
  parts: EndpointParts,
): ReadonlyMap<DescMethod, Endpoint> {
  const endpoints = new Map<DescMethod, Endpoint>();
  const names = new Set<string>();
  for (const definition of services) {
    const name = definition.service.typeName;
    if (names.has(name)) throw new Error(`service ${name} is given twice`);
    names.add(name);
    for (const method of definition.service.methods) endpoints.set(method, createEndpoint(definition, method, parts));
  }
  return endpoints;
}

function createEndpoint(definition: ServiceDefinition, method: DescMethod, parts: EndpointParts): Endpoint {
  const name = methodName(method);
  const serve = definition.functions[method.localName];
  if (typeof serve !== "function") throw new Error(`${name} has no function that serves it`);
  if (method.methodKind === "client_streaming")
    throw new Error(`${name} streams requests only, which no wire here serves`);
  return {
    method,
    name,
    access: accessRuleOf(method),
    check: parts.checkOf(method.input),
    metrics: parts.metricsOf(name),
    serve: (request, context) => serve.call(definition.functions, request as never, context),
  };
}

/** The full name of a method, `package.Service/Method`. */
export function methodName(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}
