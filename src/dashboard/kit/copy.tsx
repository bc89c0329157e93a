import { Button } from "./button.tsx";
import { useAnnounce } from "./toast.tsx";

/** Properties of a button that copies. */
export interface CopyButtonProps {
  readonly text: string;
  /** Name of the copied text, as in "Copied the token": `the token`. */
  readonly what: string;
  /** Fits the button into a line of text. */
  readonly isSmall?: boolean;
}

/** Copies a text to the clipboard. If the browser refuses, says how to copy it by hand. */
export function CopyButton({ text, what, isSmall = false }: CopyButtonProps) {
  const announce = useAnnounce();
  const copy = (): void => {
    // Undefined on a page that was loaded over plain HTTP from another host.
    const clipboard = navigator.clipboard as Clipboard | undefined;
    const done = clipboard === undefined ? Promise.reject(new Error("no clipboard")) : clipboard.writeText(text);
    done.then(
      () => announce({ tone: "good", text: `Copied ${what}.` }),
      () => announce({ tone: "bad", text: `The browser does not let this page copy: select ${what} and copy it.` }),
    );
  };
  if (isSmall) {
    return (
      <button type="button" className="link" data-action="copy" aria-label={`Copy ${what}`} onClick={copy}>
        copy
      </button>
    );
  }
  return (
    <Button action="copy" onClick={copy}>
      Copy
    </Button>
  );
}
