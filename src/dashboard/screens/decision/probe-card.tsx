import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { useMutation } from "@connectrpc/connect-query";
import { DryRunService, type Probe } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Decision, DecisionPath } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { isJsonRecord, textAt, valueAt } from "../../../verify/json.ts";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Fault } from "../../kit/states.tsx";
import { Nearest } from "./nearest.tsx";
import { Reasons } from "./reasons.tsx";
import { Trace } from "./trace.tsx";

const WORDS: Readonly<Record<number, string>> = {
  [Decision.ALLOW]: "allow",
  [Decision.BLOCK]: "block",
  [Decision.ESCALATE]: "escalate",
};

/** Makes the request for a dry run of the sealed action. */
export function probeRequestOf(body: JsonObject) {
  const optional = (name: string, path: string): object => {
    const text = textAt(body, path);
    return text === "" ? {} : { [name]: text };
  };
  const metadata: JsonValue | undefined = valueAt(body, "action.metadata");
  return {
    agentId: textAt(body, "action.agent_id"),
    actionType: textAt(body, "action.action_type"),
    actionContent: textAt(body, "action.action_content"),
    ...(isJsonRecord(metadata) ? { metadata } : {}),
    ...optional("tool", "action.tool"),
    ...optional("sessionId", "session_id"),
    ...optional("onBehalfOf", "on_behalf_of"),
    ...optional("grantId", "grant_id"),
    ...optional("intentContractId", "intent_contract_id"),
    ...optional("escalationId", "presented_escalation_id"),
  };
}

/** Decides the same action again as a dry run, and shows the result of every rule. */
export function ProbeCard({ body }: { readonly body: JsonObject }) {
  const probe = useMutation(DryRunService.method.probe);
  return (
    <section className="card stack" aria-labelledby="probe-title" data-panel="probe">
      <div className="row is-apart">
        <h2 id="probe-title">What would be decided now?</h2>
        <Button
          action="probe"
          tone="primary"
          isBusy={probe.isPending}
          onClick={() => probe.mutate(probeRequestOf(body))}
        >
          Probe this again
        </Button>
      </div>
      <p className="hint">A dry run of the same action: nothing is written, counted or asked of a model.</p>
      {probe.isError ? <Fault error={probe.error} /> : null}
      {probe.data?.probe === undefined ? null : <Result probe={probe.data.probe} before={textAt(body, "decision")} />}
    </section>
  );
}

function Result({ probe, before }: { readonly probe: Probe; readonly before: string }) {
  const { decision, decisionPath, reasons, trace, traceLeftOut, nearestAllow } = probe;
  const isSame = WORDS[decision] === before;
  const path = (DecisionPath[decisionPath] ?? "").toLowerCase().replaceAll("_", " ");
  return (
    <div className="stack" role="status">
      <p className="row" data-probe={WORDS[decision]}>
        Now it would be <DecisionBadge decision={decision} />
        <span>{isSame ? "as it was then" : `and was ${before} then`}</span>
        <span className="hint">by {path}</span>
      </p>
      <Reasons
        reasons={reasons.map((reason) => ({
          code: reason.code,
          message: reason.message,
          rule: reason.rule ?? "",
          argument: reason.argument ?? "",
          mandateId: reason.mandateId ?? "",
          mandateName: reason.mandateName ?? "",
          wouldPass: reason.wouldPass ?? "",
        }))}
      />
      <Nearest changes={nearestAllow} isAllowed={decision === Decision.ALLOW} />
      <Trace trace={trace} leftOut={traceLeftOut} />
    </div>
  );
}
