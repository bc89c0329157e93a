import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { numberAt, textAt } from "../../../verify/json.ts";
import { Fault, Loading } from "../../kit/states.tsx";
import { sessionHref } from "../sessions/session-href.ts";
import { EarlierStep, lineEndOf, StepLine } from "./step-line.tsx";

/** Earlier actions shown. */
const BEFORE = 3;
/** Actions of the same millisecond that may have come later. */
const SLACK = 20;

/** Last actions of the session before this one, as a time line; nothing for an action outside sessions. */
export function SessionSteps({ body }: { readonly body: JsonObject }) {
  const sessionId = textAt(body, "session_id");
  const end = lineEndOf(body);
  const query = useQuery(
    EnforcementService.method.listDecisions,
    { sessionId, until: timestampFromMs(end.ms + 1), pageSize: BEFORE + 1 + SLACK },
    { enabled: sessionId !== "", staleTime: Number.POSITIVE_INFINITY },
  );
  if (sessionId === "") return null;
  const seq = BigInt(numberAt(body, "seq") ?? 0);
  const before = (query.data?.decisions ?? []).filter((record) => record.seq < seq);
  const shown = before.slice(0, BEFORE).reverse();
  return (
    <section className="card stack" aria-label="Session">
      <div className="row is-apart">
        <h2>
          <Link href={sessionHref(sessionId)}>Session</Link>
        </h2>
        <Link href={`/decisions?session=${encodeURIComponent(sessionId)}`}>All of this session</Link>
      </div>
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      <StepLine label="Steps of the session" end={end} rows={BEFORE + 1}>
        {query.isPending ? (
          <li>
            <Loading what="the earlier actions" />
          </li>
        ) : null}
        {query.isSuccess && shown.length === 0 ? <li className="hint">It was the first action.</li> : null}
        {shown.map((record) => (
          <EarlierStep key={record.decisionId} record={record} end={end} />
        ))}
      </StepLine>
    </section>
  );
}
