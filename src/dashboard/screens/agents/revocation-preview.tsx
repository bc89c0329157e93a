import { useState } from "react";
import type {
  PreviewedItem,
  PreviewRevocationResponse,
} from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { countText } from "../../kit/count-text.ts";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";

interface Kind {
  readonly name: string;
  readonly count: number;
  /** Count with its noun. */
  readonly title: string;
  readonly items: readonly PreviewedItem[];
}

/** Returns the kinds with at least one item that ends. */
function kindsOf({ revoked, counts, escalations, escalationCount }: PreviewRevocationResponse): readonly Kind[] {
  const kind = (name: string, nouns: readonly [string, string], count = 0, items: readonly PreviewedItem[] = []) => ({
    name,
    count,
    title: countText(count, ...nouns),
    items,
  });
  const kinds = [
    kind("sessions", ["session", "sessions"], counts?.sessions, revoked?.sessions),
    kind("credentials", ["credential or key", "credentials and keys"], counts?.credentials, revoked?.credentials),
    kind("grants_given", ["grant given", "grants given"], counts?.grantsGiven, revoked?.grantsGiven),
    kind("grants_received", ["grant received", "grants received"], counts?.grantsReceived, revoked?.grantsReceived),
    kind(
      "temporal_windows",
      ["temporal window", "temporal windows"],
      counts?.temporalWindows,
      revoked?.temporalWindows,
    ),
    kind(
      "intent_contracts",
      ["intent contract", "intent contracts"],
      counts?.intentContracts,
      revoked?.intentContracts,
    ),
    kind(
      "federation_tokens",
      ["federation token", "federation tokens"],
      counts?.federationTokens,
      revoked?.federationTokens,
    ),
    kind(
      "mcp_tool_policies",
      ["MCP tool policy", "MCP tool policies"],
      counts?.mcpToolPolicies,
      revoked?.mcpToolPolicies,
    ),
    kind("escalations", ["pending escalation", "pending escalations"], escalationCount, escalations),
  ];
  return kinds.filter(({ count }) => count > 0);
}

/** Effects of a revocation: the count of each kind that ends, and its items on demand. */
export function RevocationPreview({ preview }: { readonly preview: PreviewRevocationResponse }) {
  const some = kindsOf(preview);
  return (
    <section className="stack" aria-label="What ends" data-preview>
      <h3>What ends with it</h3>
      {some.length === 0 ? <p className="hint">Nothing but its registration.</p> : null}
      <ul className="preview">
        {some.map((kind) => (
          <PreviewedKind key={kind.name} kind={kind} />
        ))}
      </ul>
      <p className="hint">
        As of <Time at={preview.at} />. Pending escalations are rejected. What is added until you revoke ends as well;
        the certificate lists all of it.
      </p>
    </section>
  );
}

const SHOWN = 15;

function PreviewedKind({ kind: { name, title, count, items } }: { readonly kind: Kind }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <li data-id={name} data-count={count}>
      <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
        <summary>{title}</summary>
        {isOpen ? (
          <ul className="preview-items">
            {items.slice(0, SHOWN).map((item) => (
              <li key={item.id}>
                {item.name === "" ? null : (
                  <>
                    <Shown text={item.name} />{" "}
                  </>
                )}
                <code className="hint">{item.id}</code>
                {item.expiresAt === undefined ? null : (
                  <span className="hint">
                    {" "}
                    would expire <Time at={item.expiresAt} />
                  </span>
                )}
              </li>
            ))}
            {count > SHOWN ? (
              <li className="hint">
                and {(count - Math.min(SHOWN, items.length)).toLocaleString("en")} more, which the certificate lists
              </li>
            ) : null}
          </ul>
        ) : null}
      </details>
    </li>
  );
}
