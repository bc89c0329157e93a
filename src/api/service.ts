import type {
  DescMethodBiDiStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from "@bufbuild/protobuf";
import type { ControlPlaneError } from "../errors.ts";
import type { CallContext, Caller } from "./context.ts";

/** One request of a bidirectional stream. The service function replies to a faulty one, or ends the stream with its fault. */
export interface CheckedRequest<M> {
  readonly request: M;
  /** The holder of the stream's key now. */
  readonly caller: Caller;
  /** The refusal of its key, or the violation that validation found; such a request MUST NOT be served. Undefined for a valid one. */
  readonly fault: ControlPlaneError | undefined;
  /** Ends the count of its bytes. MUST be called once the request is answered. */
  readonly answered: () => void;
}

type MethodFunction<M> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageShape<I>, context: CallContext) => Promise<MessageInitShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageShape<I>, context: CallContext) => AsyncIterable<MessageInitShape<O>>
      : M extends DescMethodBiDiStreaming<infer I, infer O>
        ? (
            requests: AsyncIterable<CheckedRequest<MessageShape<I>>>,
            context: CallContext,
          ) => AsyncIterable<MessageInitShape<O>>
        : never;

/** The functions of a proto service, one a method. */
export type ServiceFunctions<S extends DescService> = {
  readonly [K in keyof S["method"]]: MethodFunction<S["method"][K]>;
};

/** A proto service with the functions that serve it. The pipeline alone calls them. */
export interface ServiceDefinition {
  readonly service: DescService;
  readonly functions: Readonly<Record<string, (request: never, context: CallContext) => unknown>>;
}

/** Binds functions to a proto service. The compiler checks that none is missing and that each fits its method. */
export function defineService<S extends DescService>(service: S, functions: ServiceFunctions<S>): ServiceDefinition {
  return { service, functions: functions as unknown as ServiceDefinition["functions"] };
}
