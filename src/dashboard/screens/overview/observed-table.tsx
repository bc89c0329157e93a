import { Link } from "wouter";
import type { ObservedMandate } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Shown } from "../../kit/shown.tsx";

/** Decisions that observing mandates would have made; nothing if there is none. */
export function ObservedTable({ observed }: { readonly observed: readonly ObservedMandate[] }) {
  if (observed.length === 0) return null;
  return (
    <section className="card stack" aria-label="Observing mandates">
      <h2>What observing mandates would have done</h2>
      <div className="table-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Mandate</th>
              <th scope="col" className="number">
                Would block
              </th>
              <th scope="col" className="number">
                Would escalate
              </th>
            </tr>
          </thead>
          <tbody>
            {observed.map(({ mandateId, mandateName, version, wouldBlock, wouldEscalate }) => (
              <tr key={`${mandateId} ${version}`} data-id={mandateId}>
                <td>
                  <Link href={`/mandates/${mandateId}`}>
                    <Shown text={mandateName} />
                  </Link>{" "}
                  <span className="hint">version {version}</span>
                </td>
                <td className="number">{wouldBlock.toLocaleString("en")}</td>
                <td className="number">{wouldEscalate.toLocaleString("en")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
