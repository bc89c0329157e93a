import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Link } from "wouter";
import { reasonsIn } from "../../../explain/receipt.ts";
import { listAt, numberAt, textAt, valueAt } from "../../../verify/json.ts";
import { Badge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Reasons } from "./reasons.tsx";

const TONES = { allow: "good", block: "bad", escalate: "wait" } as const;

/** A decision, by its word in the log. */
export function WordBadge({ word }: { readonly word: string }) {
  return <Badge tone={word in TONES ? TONES[word as keyof typeof TONES] : "plain"}>{word}</Badge>;
}

/** Results of observing mandates. */
export function Observed({ body }: { readonly body: JsonObject }) {
  const observed = listAt(body, "observed");
  if (observed.length === 0) return null;
  return (
    <section className="card stack" aria-labelledby="observed-title">
      <h2 id="observed-title">Observing mandates</h2>
      <p className="hint">They only watch: nothing of this changed the decision.</p>
      {observed.map((mandate) => (
        <div key={textAt(mandate, "mandate_id")} className="stack is-tight">
          <p className="row">
            would <WordBadge word={textAt(mandate, "would_decide")} />
            <Link href={`/mandates/${textAt(mandate, "mandate_id")}`}>
              <Shown text={textAt(listAt(mandate, "reasons")[0], "mandate_name") || textAt(mandate, "mandate_id")} />
            </Link>
            <span className="hint">version {String(numberAt(mandate, "version"))}</span>
          </p>
          <Reasons reasons={reasonsIn(mandate)} />
        </div>
      ))}
    </section>
  );
}

/** Answers of models to the semantic rules. */
export function Guards({ body }: { readonly body: JsonObject }) {
  const guards = listAt(body, "guards");
  if (guards.length === 0) return null;
  return (
    <section className="card stack" aria-labelledby="guards-title">
      <h2 id="guards-title">Models asked</h2>
      {guards.map((guard) => (
        <GuardView key={`${textAt(guard, "mandate_id")} ${textAt(guard, "rule")}`} guard={guard} />
      ))}
    </section>
  );
}

function GuardView({ guard }: { readonly guard: JsonValue }) {
  const unavailable = textAt(guard, "unavailable");
  const violates = valueAt(guard, "violates") === true;
  return (
    <div className="stack is-tight">
      <p className="row">
        {unavailable === "" ? (
          <Badge tone={violates ? "bad" : "good"}>{violates ? "violates" : "does not violate"}</Badge>
        ) : (
          <Badge tone="wait">no verdict</Badge>
        )}
        <Link href={`/mandates/${textAt(guard, "mandate_id")}`}>
          <code>{textAt(guard, "rule")}</code> of the mandate
        </Link>
      </p>
      <p className="hint">
        {unavailable === "" ? (
          <>
            <Shown text={textAt(guard, "model")} />, {Math.round((numberAt(guard, "confidence") ?? 0) * 100)} % sure, in{" "}
            {numberAt(guard, "latency_ms")} ms
          </>
        ) : (
          <Shown text={unavailable.replaceAll("_", " ")} />
        )}
      </p>
      {textAt(guard, "reason") === "" ? null : (
        <p>
          <Shown text={textAt(guard, "reason")} />
        </p>
      )}
    </div>
  );
}
