import type { DescField, DescMethod, DescService, Message } from "@bufbuild/protobuf";
import { type HttpBinding, httpBindingsFromMethod } from "./http-rule.ts";
import type { JsonEncoder } from "./json-encoder.ts";
import { type PathTemplate, parsePathTemplate, type TemplateVariable } from "./path-template.ts";
import { createRouteTrie, type RouteMatch, type RouteTrie } from "./route-trie.ts";
import type { BoundField, TextBinder } from "./text-binder.ts";
import type { LocalMessage } from "./well-known.ts";

/** One HTTP method and path that an RPC answers, with all that serving it needs. */
export interface Route {
  readonly method: DescMethod;
  readonly binding: HttpBinding;
  readonly template: PathTemplate;
  readonly variables: readonly { readonly variable: TemplateVariable; readonly field: BoundField }[];
  /** The response body for a response message. */
  readonly textOf: (message: Message) => string;
  /** The request field that a resumed stream starts from. */
  readonly resumeField: BoundField | undefined;
  /** The resume point that a stream's message carries; `""` for none. */
  readonly cursorOf: (message: Message) => string;
}

/** All routes, by HTTP method. */
export interface RouteTable {
  readonly routes: readonly Route[];
  match(httpMethod: string, path: string): RouteMatch<Route> | undefined;
  /** The HTTP methods that a path answers, HEAD with GET; empty when the path is unknown. */
  allowed(path: string): string[];
}

/** What routes are built from. */
export interface RouteOptions {
  readonly services: readonly DescService[];
  /** More templates under which a template is served as well. */
  readonly aliases: (template: string) => readonly string[];
  readonly encoder: JsonEncoder;
  readonly binder: TextBinder;
}

/** Builds the table. Throws an `Error` that names both RPCs when two of them claim one route, and for a rule that cannot be served. */
export function createRouteTable(options: RouteOptions): RouteTable {
  const tries = new Map<string, RouteTrie<Route>>();
  const routes: Route[] = [];
  for (const route of options.services.flatMap((service) => routesOfService(service, options))) {
    if (addRoute(tries, route)) routes.push(route);
  }
  return {
    routes,
    match: (httpMethod, path) => tries.get(httpMethod === "HEAD" ? "GET" : httpMethod)?.match(path),
    allowed(path) {
      const methods = [...tries].filter(([, trie]) => trie.match(path) !== undefined).map(([method]) => method);
      return methods.includes("GET") ? [...methods, "HEAD"] : methods;
    },
  };
}

function addRoute(tries: Map<string, RouteTrie<Route>>, route: Route): boolean {
  const { httpMethod } = route.binding;
  const trie = tries.get(httpMethod) ?? createRouteTrie<Route>();
  tries.set(httpMethod, trie);
  const known = trie.add(route.template, route);
  // An RPC may be declared under a path that is also an alias of its own.
  if (known !== undefined && known.method !== route.method) {
    throw new Error(`${known.method} and ${route.method} both claim ${httpMethod} ${route.template.text}`);
  }
  return known === undefined;
}

function routesOfService(service: DescService, options: RouteOptions): Route[] {
  return service.methods.flatMap((method) =>
    httpBindingsFromMethod(method).flatMap((binding) =>
      [binding.template, ...options.aliases(binding.template)].map((template) =>
        createRoute(method, binding, template, options),
      ),
    ),
  );
}

function createRoute(method: DescMethod, binding: HttpBinding, text: string, options: RouteOptions): Route {
  if (method.methodKind !== "unary" && method.methodKind !== "server_streaming") {
    throw new Error(`${method}: only unary and server-streaming methods can have a google.api.http rule`);
  }
  const template = parsePathTemplate(text);
  return {
    method,
    binding,
    template,
    variables: template.variables.map((variable) => ({ variable, field: pathField(method, variable, options.binder) })),
    textOf: textWriter(method, binding.responseBody, options.encoder),
    resumeField: method.methodKind === "unary" ? undefined : options.binder.bind(method.input, "cursor"),
    cursorOf: cursorReader(method),
  };
}

function pathField(method: DescMethod, { fieldPath }: TemplateVariable, binder: TextBinder): BoundField {
  const field = binder.bind(method.input, fieldPath);
  if (field === undefined || field.repeated) {
    throw new Error(
      `${method}: path variable \`${fieldPath}\` is not a singular scalar field of ${method.input.typeName}`,
    );
  }
  return field;
}

function textWriter(method: DescMethod, field: DescField | undefined, encoder: JsonEncoder): Route["textOf"] {
  return field === undefined ? encoder.messageWriter(method.output) : encoder.fieldWriter(field);
}

function cursorReader(method: DescMethod): Route["cursorOf"] {
  const field = method.output.fields.find((each) => each.name === "cursor" && each.fieldKind === "scalar");
  if (field === undefined) return () => "";
  return (message) => {
    const text = String((message as LocalMessage)[field.localName] ?? "");
    // A line break or NUL would end or void the `id` line of an event.
    return /[\r\n\0]/.test(text) ? "" : text;
  };
}
