import { Link } from "wouter";
import { Shown } from "../../kit/shown.tsx";
import type { Part, Sentence } from "./explain.ts";

function PartView({ part }: { readonly part: Exclude<Part, string> }) {
  const text = (
    <strong>
      <Shown text={part.quoted} />
    </strong>
  );
  return part.href === undefined ? text : <Link href={part.href}>{text}</Link>;
}

/** Shows a sentence, with what others wrote in it inert. */
export function SentenceView({ sentence }: { readonly sentence: Sentence }) {
  return (
    <p>{sentence.map((part, index) => (typeof part === "string" ? part : <PartView key={index} part={part} />))}</p>
  );
}
