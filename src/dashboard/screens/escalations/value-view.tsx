import type { JsonValue } from "@bufbuild/protobuf";
import { JsonView } from "../../kit/json-view.tsx";
import { numberText } from "./fired-argument.ts";

/** Properties of a value. */
export interface ValueViewProps {
  readonly value: JsonValue;
  /** Currency of an amount. */
  readonly currency: string | undefined;
}

/** Shows the value of an argument: an amount with its currency, any other as it is sent. */
export function ValueView({ value, currency }: ValueViewProps) {
  if (typeof value !== "number" || currency === undefined) return <JsonView value={value} />;
  return <span className="json-plain">{numberText(value, currency)}</span>;
}
