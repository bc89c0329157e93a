import { lazy, useState } from "react";
import { Dialog } from "../kit/dialog.tsx";
import { Part } from "../kit/part.tsx";
import "../styles/find.css";

const FindBox = lazy(() => import("./find-box.tsx").then(({ FindBox: box }) => ({ default: box })));

/** Finds anything by a few letters, without the mouse. It takes what is typed before the search has loaded. */
export function FindDialog({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const loading = (
    <>
      <input
        className="find-input"
        aria-label="Find"
        value={text}
        onChange={({ target }) => setText(target.value)}
        autoComplete="off"
        spellCheck={false}
      />
      <div className="find-list" />
    </>
  );
  return (
    <Dialog title="Find" isOpen onClose={onClose} className="find">
      <Part what="the search" fallback={loading}>
        <FindBox text={text} onType={setText} onClose={onClose} />
      </Part>
    </Dialog>
  );
}
