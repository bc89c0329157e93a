import { CopyButton } from "../../kit/copy.tsx";
import { DownloadButton } from "../../kit/download.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";

/** Exact text that was hashed. */
export function SealedCard({ name, text }: { readonly name: string; readonly text: string }) {
  return (
    <section className="card stack" aria-labelledby="sealed-title">
      <div className="row is-apart">
        <h2 id="sealed-title">Sealed text</h2>
        <div className="row">
          <CopyButton text={text} what="the sealed text" />
          <DownloadButton name={`${name}.json`} text={text} title="Download" />
        </div>
      </div>
      <p className="hint">
        Canonical JSON (RFC 8785), exactly as it was hashed. Characters that nobody would see are shown by their code
        points; the copy and the file have the characters themselves.
      </p>
      <Scrolled label="Sealed text" className="scrolled mono">
        <Shown text={text} />
      </Scrolled>
    </section>
  );
}
