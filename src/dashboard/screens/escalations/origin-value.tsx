import { ValueKind } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Folded } from "../../kit/folded.tsx";
import type { FiredArgument } from "./fired-argument.ts";
import { ValueView } from "./value-view.tsx";

const KINDS: Readonly<Record<number, string>> = {
  [ValueKind.DESTINATION]: "A destination, which receives something",
  [ValueKind.CREDENTIAL]: "A credential, which gives access",
  [ValueKind.HOST]: "A host of the network",
  [ValueKind.RESOURCE]: "A resource, by its id, name or URL",
  [ValueKind.PATH]: "The path of a file or a folder",
  [ValueKind.NUMBER]: "A number",
  [ValueKind.TEXT]: "A free text",
};

/** Properties of a value whose origin was looked at. */
export interface OriginValueProps {
  /** Kind with which the rule read it; undefined for a rule that does not look at origins. */
  readonly kind: ValueKind | undefined;
  readonly argument: FiredArgument | undefined;
}

/** Shows the value of an argument on whose origin a rule asked, with its kind in words. Its reason tells where it was seen. */
export function OriginValue({ kind, argument }: OriginValueProps) {
  if (kind === undefined || argument?.value === undefined) return null;
  return (
    <div className="origin" data-origin={argument.path}>
      <span className="hint">{KINDS[kind] ?? "A value"}</span>
      <Folded>
        <ValueView value={argument.value} currency={argument.currency} />
      </Folded>
    </div>
  );
}
