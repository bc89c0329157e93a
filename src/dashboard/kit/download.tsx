import { Button } from "./button.tsx";

/** Milliseconds that the browser gets to start a download. */
const KEPT_MS = 60_000;

/** Saves parts as one file through the browser. */
export function saveFile(name: string, parts: readonly BlobPart[], type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob([...parts], { type: `${type}; charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

/** Properties of a button that saves a text as a file. */
export interface DownloadButtonProps {
  readonly action?: string;
  readonly name: string;
  readonly text: string;
  readonly title: string;
}

/** Saves a text as a file, byte for byte. */
export function DownloadButton({ action = "download", name, text, title }: DownloadButtonProps) {
  return (
    <Button action={action} onClick={() => saveFile(name, [text])}>
      {title}
    </Button>
  );
}
