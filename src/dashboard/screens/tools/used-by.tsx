import { Link } from "wouter";
import {
  type ListMandatesResponse,
  type Mandate,
  MandateService,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { PageStates } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown } from "../../kit/shown.tsx";

const PAGE_SIZE = 200;
const mandatesOf = ({ mandates }: ListMandatesResponse): readonly Mandate[] => mandates;

/** Mandates in force that name a tool, among those read. */
export function UsedBy({ tool }: { readonly tool: string }) {
  const pages = usePages(MandateService.method.listMandates, { pageSize: PAGE_SIZE }, mandatesOf);
  const { items, readMore } = pages;
  const key = tool.toLowerCase();
  const naming = items.filter(({ rules }) => rules.some((rule) => rule.tool?.trim().toLowerCase() === key));
  return (
    <section className="card stack" aria-label="Mandates that name it">
      <h2>Mandates that name it</h2>
      <PageStates
        pages={{ ...pages, items: naming }}
        loading="the mandates"
        empty={<p className="hint">None{readMore === undefined ? "" : " so far"}.</p>}
      >
        <ul>
          {naming.map(({ mandateId, name }) => (
            <li key={mandateId} data-id={mandateId} className="used-by">
              <Link href={`/mandates/${mandateId}`}>
                <Shown text={name} />
              </Link>
            </li>
          ))}
        </ul>
      </PageStates>
      {readMore === undefined ? null : (
        <button type="button" className="link" onClick={readMore}>
          look through {PAGE_SIZE} more mandates
        </button>
      )}
    </section>
  );
}
