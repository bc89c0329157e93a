import { Link } from "wouter";
import type { Named, Part, Sentence } from "../../../explain/sentence.ts";
import { Shown } from "../../kit/shown.tsx";
import { exactText, useZone } from "../../kit/zone.ts";

/** Screens of the things that a sentence names. */
const SCREENS: Readonly<Record<Named["kind"], string>> = {
  agent: "agents",
  tool: "tools",
  mandate: "mandates",
  escalation: "escalations",
  decision: "decisions",
  list: "lists",
};

const hrefOf = ({ kind, id }: Named): string => `/${SCREENS[kind]}/${encodeURIComponent(id)}`;

function PartView({ part }: { readonly part: Exclude<Part, string> }) {
  const text = (
    <strong>
      <Shown text={part.quoted} />
    </strong>
  );
  return part.names === undefined ? text : <Link href={hrefOf(part.names)}>{text}</Link>;
}

/** Times as sentences write them: in UTC, to the millisecond. */
const TIMES = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

/** Shows a sentence, with times in the zone of the page. Texts from elsewhere in it are inert. */
export function SentenceView({ sentence }: { readonly sentence: Sentence }) {
  const [zone] = useZone();
  const zoned = (text: string): string => text.replace(TIMES, (time) => exactText(Date.parse(time), zone));
  return (
    <p>
      {sentence.map((part, index) => (typeof part === "string" ? zoned(part) : <PartView key={index} part={part} />))}
    </p>
  );
}
