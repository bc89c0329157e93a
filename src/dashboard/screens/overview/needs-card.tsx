import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useId } from "react";
import { Link } from "wouter";
import { Button } from "../../kit/button.tsx";
import { Icon } from "../../kit/icon.tsx";
import { Message } from "../../kit/message.tsx";
import { faultText } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useHeld } from "../../kit/use-held.ts";
import { type NeedFault, useNeeds, useNeedTotal } from "../../live/use-needs.ts";
import { type NeedRow, rowsFrom } from "./need-rows.tsx";

/** Lists what waits for a person, each with its cause and its next step. */
export function NeedsCard() {
  const needs = useNeeds();
  const total = useNeedTotal();
  const { faults, isRead, isTried, isLive, readAtMs } = needs;
  const rows = isTried ? rowsFrom(needs) : [];
  const { value: shown, handlers } = useHeld(rows);
  const known = new Set(shown.map(keyOf));
  const held = rows.filter((row) => !known.has(keyOf(row))).length;
  return (
    <section className={isTried ? "card stack needs" : "card stack needs is-looking"} aria-label="What needs you">
      <div className="needs-head">
        <h2>What needs you {total === 0 ? null : <span className="nav-count">{total.toLocaleString("en")}</span>}</h2>
        <p className="hint">
          {readAtMs === undefined ? null : (
            <>
              Looked <Time at={timestampFromMs(readAtMs)} />
              {isLive ? null : "; connecting for escalations …"}
            </>
          )}
        </p>
      </div>
      {faults.map((fault) => (
        <Unread key={fault.what} fault={fault} />
      ))}
      {shown.length > 0 ? (
        <ul className="needs-list" {...handlers}>
          {shown.map((row) => (
            <Item key={keyOf(row)} row={row} />
          ))}
        </ul>
      ) : (
        <div className="needs-none">
          <p role="status">
            {isRead && isLive
              ? faults.length === 0
                ? "Nothing needs you."
                : "Nothing else needs you, as far as could be read."
              : "Looking …"}
          </p>
          {isRead && isLive ? <LookedAt faults={faults} /> : null}
        </div>
      )}
      {held === 0 ? null : (
        <p className="hint" role="status">
          {held} more came in. The list takes them up when you leave it.
        </p>
      )}
    </section>
  );
}

const keyOf = ({ kind, id }: NeedRow): string => `${kind} ${id}`;

function Item({ row: { kind, id, mark, thing, cause, step, button } }: { readonly row: NeedRow }) {
  const name = useId();
  const link = useId();
  return (
    <li className="need" data-need={kind} data-id={id}>
      <span className="need-mark">{mark}</span>
      <div className="need-text">
        <p id={name} className="need-thing">
          {thing}
        </p>
        {cause === null ? null : <p className="hint">{cause}</p>}
      </div>
      <div className="need-step">
        {button}
        <Link href={step.href} id={link} className="button" aria-labelledby={`${link} ${name}`}>
          {step.label}
        </Link>
      </div>
    </li>
  );
}

/** Lists that are looked at, with what was found in each. `what` names it as its fault does. */
const LOOKED_AT = [
  { what: "escalations", text: "No escalation waits", href: "/escalations" },
  { what: "blocked decisions", text: "No more blocks than usual in the last hour", href: "/decisions?decision=block" },
  { what: "unknown outcomes", text: "No action whose outcome is unknown", href: "/outcomes" },
  {
    what: "incidents",
    text: "No revocation of the last 7 days that you have not seen",
    href: "/agents?status=revoked",
  },
  { what: "proposals", text: "No proposal that waits for you", href: "/proposals" },
  { what: "limits", text: "No limit used up from 80 %", href: "/limits" },
  { what: "MCP servers", text: "No MCP server away, and no definition to accept", href: "/servers" },
  { what: "webhooks", text: "No webhook that fails", href: "/webhooks" },
];

/** Says what was looked at and found quiet, so that an empty card is not taken for a broken one. */
function LookedAt({ faults }: { readonly faults: readonly NeedFault[] }) {
  const unread = new Set(faults.map(({ what }) => what));
  return (
    <ul className="looked-at">
      {LOOKED_AT.filter(({ what }) => !unread.has(what)).map(({ what, text, href }) => (
        <li key={what} className="row" data-looked-at={what}>
          <Icon name="done" />
          <Link href={href}>{text}</Link>
        </li>
      ))}
    </ul>
  );
}

/** Says that a list could not be read, so that a short list is not taken for a quiet workspace. */
function Unread({ fault: { what, error, retry } }: { readonly fault: NeedFault }) {
  return (
    <div className="need-fault" role="alert" data-fault={what}>
      <p>
        The {what} could not be read: <Message text={faultText(error)} />
      </p>
      <Button action="retry" tone="quiet" onClick={retry}>
        Try again
      </Button>
    </div>
  );
}
