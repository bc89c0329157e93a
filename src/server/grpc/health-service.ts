import { create, type DescService, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import {
  type HealthCheckRequest,
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
  Health as HealthService,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../gen/grpc/health/v1/health_pb.js";
import type { Health } from "../health.ts";
import { decodeBinary } from "../validation.ts";
import type { GrpcExchange, GrpcMethod } from "./exchange.ts";
import { statusTrailers } from "./status.ts";

/** Bounds of a request, which needs no key: the name of a service fits. */
const BOUNDS = { maxBytes: 4_096, maxValues: 16 };
const MAX_DEPTH = 8;

/** `grpc.health.v1.Health` for services and, under the empty name, for the server as a whole. */
export class GrpcHealth {
  readonly methods: ReadonlyMap<string, GrpcMethod>;
  readonly #names: ReadonlySet<string>;
  readonly #health: Health;
  readonly #watching = new Set<GrpcExchange>();

  constructor(services: readonly DescService[], health: Health) {
    this.#names = new Set(["", ...services.map(({ typeName }) => typeName)]);
    this.#health = health;
    const answers = {
      check: (exchange: GrpcExchange) => this.#check(exchange),
      list: (exchange: GrpcExchange) => this.#list(exchange),
      watch: (exchange: GrpcExchange) => this.#watch(exchange),
    };
    this.methods = new Map(
      HealthService.methods.map(({ name, localName }) => [
        `/${HealthService.typeName}/${name}`,
        {
          serve: (exchange) =>
            answers[localName as keyof typeof answers](exchange).catch((error) => exchange.fail(error)),
        },
      ]),
    );
  }

  /** Ends open watches, which would otherwise keep a server from stopping gracefully. */
  close(): void {
    for (const exchange of this.#watching) exchange.finish();
  }

  async #check(exchange: GrpcExchange): Promise<void> {
    const { service } = await request(exchange);
    if (this.#names.has(service)) exchange.reply(encoded(this.#statusOf(service)));
    else exchange.refuse(statusTrailers(Code.NotFound, `no service \`${service}\``));
  }

  async #list(exchange: GrpcExchange): Promise<void> {
    await request(exchange);
    const statuses: Record<string, MessageInitShape<typeof HealthCheckResponseSchema>> = {};
    for (const name of this.#names) statuses[name] = { status: this.#statusOf(name) };
    exchange.reply(toBinary(HealthListResponseSchema, create(HealthListResponseSchema, { statuses })));
  }

  async #watch(exchange: GrpcExchange): Promise<void> {
    const { service } = await request(exchange);
    const tell = (): void => void exchange.send(encoded(this.#statusOf(service)));
    exchange.begin();
    tell();
    const unwatch = this.#names.has(service) ? this.#health.watch(tell) : () => undefined;
    this.#watching.add(exchange);
    exchange.onClose(() => {
      unwatch();
      this.#watching.delete(exchange);
    });
  }

  #statusOf(service: string): Status {
    if (!this.#names.has(service)) return Status.SERVICE_UNKNOWN;
    return this.#health.serving ? Status.SERVING : Status.NOT_SERVING;
  }
}

async function request(exchange: GrpcExchange): Promise<HealthCheckRequest> {
  const bytes = await exchange.read({ bounds: BOUNDS, count: () => undefined }).only();
  return decodeBinary(HealthCheckRequestSchema, bytes, MAX_DEPTH, BOUNDS) as HealthCheckRequest;
}

const encoded = (status: Status): Uint8Array =>
  toBinary(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
