import type { JsonObject } from "@bufbuild/protobuf";
import { actionPartsOf } from "../../../verify/decision.ts";
import { numberAt, textAt } from "../../../verify/json.ts";
import { JsonView } from "../../kit/json-view.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Attempted action with its arguments. */
export function ActionCard({ body }: { readonly body: JsonObject }) {
  const { arguments: given, metadata } = actionPartsOf(body);
  const [content, tool] = [textAt(body, "action.action_content"), textAt(body, "action.tool")];
  const version = numberAt(body, "action.tool_version");
  return (
    <section className="card stack" aria-labelledby="action-title">
      <h2 id="action-title">Action</h2>
      <p className="row">
        <strong>
          <Shown text={textAt(body, "action.action_type")} />
        </strong>
        {tool === "" ? null : (
          <span className="hint">
            tool <Shown text={tool} />
            {version === undefined ? ", not registered" : `, schema version ${version}`}
          </span>
        )}
      </p>
      {content === "" ? null : (
        <Scrolled label="Content of the action">
          <Shown text={content} />
        </Scrolled>
      )}
      <h3>Arguments</h3>
      {given === undefined ? <p className="hint">None.</p> : <JsonView value={given} />}
      {metadata === undefined ? null : (
        <>
          <h3>Metadata</h3>
          <JsonView value={metadata} />
        </>
      )}
    </section>
  );
}
