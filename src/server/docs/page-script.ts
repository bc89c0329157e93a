/**
 * Adds to each block of code a button that copies it.
 *
 * INVARIANT: runs in the browser from its own text, so that it uses nothing but what stands within it.
 */
function addCopyButtons(): void {
  const SHOWN_MS = 2_000;

  /** Copies a selection. Works on pages over plain HTTP from another host too, where there is no clipboard. */
  function copySelected(code: HTMLElement): boolean {
    getSelection()?.selectAllChildren(code);
    return document.execCommand("copy");
  }

  async function copy(code: HTMLElement): Promise<boolean> {
    const clipboard = navigator.clipboard as Clipboard | undefined;
    if (clipboard === undefined) return copySelected(code);
    return clipboard.writeText(code.textContent ?? "").then(
      () => true,
      () => copySelected(code),
    );
  }

  for (const block of document.querySelectorAll<HTMLElement>(".code")) {
    const code = block.querySelector("code");
    if (code === null) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", async () => {
      button.textContent = (await copy(code)) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => {
        button.textContent = "Copy";
      }, SHOWN_MS);
    });
    block.append(button);
  }
}

/** Script of the pages. */
export const SCRIPT = `(${addCopyButtons})();\n`;
