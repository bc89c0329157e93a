import { Shown } from "./shown.tsx";

/** Shows a sentence of the service. Backticks in it mark texts from elsewhere. */
export function Message({ text }: { readonly text: string }) {
  const parts = text.split("`");
  // An odd number of backticks means that a value contains one: then nothing is marked.
  if (parts.length % 2 === 0) return <Shown text={text} />;
  return parts.map((part, index) => {
    const key = `${index} ${part}`;
    if (index % 2 === 0) return part === "" ? null : <Shown key={key} text={part} />;
    return (
      <code key={key}>
        <Shown text={part} />
      </code>
    );
  });
}
