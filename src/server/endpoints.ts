import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { CallContext } from "../api/context.ts";
import type { ServiceDefinition } from "../api/service.ts";
import { type AccessRule, accessRuleOf } from "./admission.ts";
import type { RequestCheck } from "./validation.ts";

/** A method with its access rule, check and service function, looked up once at start. */
export interface Endpoint {
  readonly method: DescMethod;
  /** `package.Service/Method`. */
  readonly name: string;
  readonly access: AccessRule;
  readonly check: RequestCheck;
  /** The service function; takes the request, or the checked requests of a bidirectional stream. */
  readonly serve: (request: unknown, context: CallContext) => unknown;
}

/** Returns the full name of a method, `package.Service/Method`. */
export function methodName(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

/**
 * Builds the endpoint of every method of every service. Throws an `Error` for a method without `access` or without a function,
 * for a client-streaming method, and for a duplicate service.
 */
export function createEndpoints(
  services: readonly ServiceDefinition[],
  checkOf: (schema: DescMessage) => RequestCheck,
): ReadonlyMap<DescMethod, Endpoint> {
  const endpoints = new Map<DescMethod, Endpoint>();
  for (const { service, functions } of services) {
    if (service.methods.some((method) => endpoints.has(method)))
      throw new Error(`service ${service.typeName} is given twice`);
    for (const method of service.methods) {
      const name = methodName(method);
      const serve = functions[method.localName];
      if (typeof serve !== "function") throw new Error(`${name} has no service function`);
      if (method.methodKind === "client_streaming")
        throw new Error(`${name} streams only requests, which no protocol here serves`);
      endpoints.set(method, {
        method,
        name,
        access: accessRuleOf(method),
        check: checkOf(method.input),
        serve: serve.bind(functions) as Endpoint["serve"],
      });
    }
  }
  return endpoints;
}
