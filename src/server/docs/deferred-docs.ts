import type { DescService } from "@bufbuild/protobuf";
import type { HttpRoute } from "../http.ts";
import type { OpenApiDocument, OpenApiOptions } from "../rest/openapi.ts";

/**
 * The OpenAPI description of services and the documentation with their reference. Both are created, and what creates them is loaded,
 * when first asked for: a process of which nobody asks them holds neither.
 */
export class DeferredDocs {
  readonly #services: readonly DescService[];
  readonly #options: OpenApiOptions;
  #document: Promise<OpenApiDocument> | undefined;
  #text: Promise<string> | undefined;
  #route: Promise<HttpRoute> | undefined;

  constructor(services: readonly DescService[], options: OpenApiOptions) {
    this.#services = services;
    this.#options = options;
  }

  /** Returns the description as JSON. */
  text(): Promise<string> {
    this.#text ??= this.#describe().then((document) => JSON.stringify(document));
    return this.#text;
  }

  /** Returns the route of `/docs`. */
  route(): HttpRoute {
    return {
      prefix: "/docs",
      handle: async (...given) => {
        this.#route ??= this.#load();
        return (await this.#route).handle(...given);
      },
    };
  }

  async #load(): Promise<HttpRoute> {
    const { docsRoute } = await import("./docs-route.ts");
    return docsRoute(await this.#describe());
  }

  #describe(): Promise<OpenApiDocument> {
    this.#document ??= import("../rest/openapi.ts").then(({ openApiFromServices }) =>
      openApiFromServices(this.#services, this.#options),
    );
    return this.#document;
  }
}
