import { Link } from "wouter";
import type { SummarizeDecisionsResponse } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Shown } from "../../kit/shown.tsx";
import { Loading } from "../../kit/states.tsx";

/** Grey lines before the reasons are read. */
const LINES = 5;

/** Most frequent reasons of blocked and escalated actions. Its place is there before the summary, so that nothing beside it moves. */
export function ReasonTable({ summary }: { readonly summary: SummarizeDecisionsResponse | undefined }) {
  return (
    <section className="card stack" aria-label="Most frequent reasons">
      <h2>Most frequent reasons</h2>
      {summary === undefined ? <Loading what="the reasons" lines={LINES} /> : <Reasons summary={summary} />}
    </section>
  );
}

function Reasons({ summary: { topReasons, reasonsFrom } }: { readonly summary: SummarizeDecisionsResponse }) {
  if (topReasons.length === 0) return <p className="hint">No action was blocked or escalated in this window.</p>;
  return (
    <>
      <div className="table-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Reason</th>
              <th scope="col">Mandate</th>
              <th scope="col" className="number">
                Times
              </th>
            </tr>
          </thead>
          <tbody>
            {topReasons.map(({ code, mandateId, mandateName, rule, count }) => (
              <tr key={`${code} ${mandateId} ${rule}`} data-id={`${code} ${rule ?? ""}`}>
                <td>
                  <code className="reason-code">{code}</code>
                </td>
                <td>
                  {mandateId === undefined ? (
                    <span className="hint">none</span>
                  ) : (
                    <Link href={`/mandates/${mandateId}`}>
                      <Shown text={mandateName ?? mandateId} /> {rule === undefined ? null : <code>{rule}</code>}
                    </Link>
                  )}
                </td>
                <td className="number">{count.toLocaleString("en")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="hint">Counted over the newest {reasonsFrom.toLocaleString("en")} decisions of the window.</p>
    </>
  );
}
