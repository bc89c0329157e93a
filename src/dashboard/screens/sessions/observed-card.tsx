import { useState } from "react";
import { Link } from "wouter";
import type { ObservedTool, SessionObservations } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { Shown } from "../../kit/shown.tsx";

/** Properties of the observations. */
export interface ObservedCardProps {
  readonly observations: SessionObservations | undefined;
  /** True once the session has ended or expired: what it observed is forgotten then. */
  readonly hasEnded: boolean;
}

/** Numbers of what a session was asked and read. The service keeps no value that could be shown. */
export function ObservedCard({ observations, hasEnded }: ObservedCardProps) {
  const { prompts = 0n, promptValues = 0n, approvedValues = 0n, tools = [], full = false } = observations ?? {};
  const isEmpty = prompts === 0n && approvedValues === 0n && tools.length === 0 && !full;
  return (
    <section className="card stack" aria-label="Observed">
      <h2>Observed</h2>
      {full && !hasEnded ? (
        <p className="full-note" data-part="full">
          The session has no more room: values were left out or forgotten. Rules that fire on what was seen now take any
          value as seen.
        </p>
      ) : null}
      {isEmpty || hasEnded ? (
        <p className="hint">
          {hasEnded
            ? "What it observed was forgotten when it ended."
            : "It was told neither what the agent was asked nor what it read, so no provenance rule fires in it."}
        </p>
      ) : (
        <>
          <dl className="facts">
            <dt>Prompts</dt>
            <dd data-count="prompts">
              {prompts === 0n ? (
                <span className="hint">none, so no provenance rule fires in it</span>
              ) : (
                `${countText(prompts, "prompt")} with ${countText(promptValues, "value")}`
              )}
            </dd>
            <dt>Approved</dt>
            <dd data-count="approved">
              {approvedValues === 0n ? <span className="hint">none</span> : countText(approvedValues, "value")}
            </dd>
          </dl>
          <ToolTable tools={tools} />
          <p className="hint">Values are kept as digests: they can be compared, but not shown.</p>
        </>
      )}
    </section>
  );
}

const FIRST = 20;
const MORE = 100;

function ToolTable({ tools }: { readonly tools: readonly ObservedTool[] }) {
  const [limit, setLimit] = useState(FIRST);
  if (tools.length === 0) return <p className="hint">It was told of no result.</p>;
  return (
    <>
      <table className="observed-tools" aria-label="Results by tool">
        <thead>
          <tr>
            <th scope="col">Results of</th>
            <th scope="col" className="number">
              Results
            </th>
            <th scope="col" className="number">
              New values
            </th>
          </tr>
        </thead>
        <tbody>
          {tools.slice(0, limit).map(({ tool, results, values }) => (
            <tr key={tool ?? ""} data-tool={tool ?? ""}>
              <td>
                {tool === undefined ? (
                  <span className="hint">no tool</span>
                ) : (
                  <Link href={`/tools/${encodeURIComponent(tool)}`}>
                    <Shown text={tool} />
                  </Link>
                )}
              </td>
              <td className="number">{results.toLocaleString("en")}</td>
              <td className="number">{values.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {tools.length > limit ? (
        <button type="button" className="link" data-action="more-tools" onClick={() => setLimit(limit + MORE)}>
          {countText(tools.length - limit, "more tool")}
        </button>
      ) : null}
    </>
  );
}
