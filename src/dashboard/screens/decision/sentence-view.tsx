import { Link } from "wouter";
import type { Named, Part, Sentence } from "../../../explain/receipt.ts";
import { Shown } from "../../kit/shown.tsx";

/** Screens of the things that a sentence names. */
const SCREENS: Readonly<Record<Named["kind"], string>> = {
  agent: "agents",
  tool: "tools",
  mandate: "mandates",
  escalation: "escalations",
  decision: "decisions",
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

/** Shows a sentence. Texts from elsewhere in it are inert. */
export function SentenceView({ sentence }: { readonly sentence: Sentence }) {
  return (
    <p>{sentence.map((part, index) => (typeof part === "string" ? part : <PartView key={index} part={part} />))}</p>
  );
}
