import type { DescMethod } from "@bufbuild/protobuf";
import { DryRunService } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ListService } from "../../gen/agentcontrol/v1/list_service_pb.js";

/** Bounds of one request message. */
export interface RequestBounds {
  /** Maximum bytes, compressed or not. */
  readonly maxBytes: number;
  /** Maximum values: fields, members and items. */
  readonly maxValues: number;
  /** Field that makes a request of the method large, if its bounds are its own. */
  readonly field?: string;
}

/** Bound of the values of one request message. */
export type ValueBounds = Pick<RequestBounds, "maxValues" | "field">;

/** Maximum values in a request: decoding more of them would delay all other calls. */
export const MAX_VALUES = 60_000;

/**
 * A whole named list: 100,000 values and 4 MiB of text, which JSON in ASCII writes in up to three times as many bytes, with quotes,
 * commas and white space between the values.
 */
const WHOLE_LIST = { maxBytes: 16_777_216, maxValues: 120_000, field: "values" } as const;
const { putList, addListValues, removeListValues } = ListService.method;
const TAKES_WHOLE_LIST: readonly DescMethod[] = [putList, addListValues, removeListValues];

/** Recorded episodes, whose results are long. */
const EPISODES = { maxBytes: 4_194_304, maxValues: 120_000, field: "episodes" } as const;

/** Returns the bounds of the requests of a method; those of most methods are the service's. */
export function requestBoundsOf(method: DescMethod, maxBodyBytes: number): RequestBounds {
  if (method === DryRunService.method.replay)
    return { ...EPISODES, maxBytes: Math.max(maxBodyBytes, EPISODES.maxBytes) };
  if (!TAKES_WHOLE_LIST.includes(method)) return { maxBytes: maxBodyBytes, maxValues: MAX_VALUES };
  return { ...WHOLE_LIST, maxBytes: Math.max(maxBodyBytes, WHOLE_LIST.maxBytes) };
}
