import { type ReactNode, useLayoutEffect, useRef, useState } from "react";

/** Shows the first lines of a long value, and all of it on demand or once the focus goes into it. */
export function Folded({ children }: { readonly children: ReactNode }) {
  const content = useRef<HTMLDivElement>(null);
  const [isCut, setIsCut] = useState(false);
  const [isOpen, setIsOpen] = useState(false);
  // Before the first paint, so that the button moves nothing.
  useLayoutEffect(() => {
    const element = content.current;
    if (element === null || isOpen) return;
    const measure = (): void => setIsCut(element.scrollHeight > element.clientHeight + 1);
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [isOpen]);
  return (
    <div className={`folded${isOpen ? " is-open" : isCut ? " is-cut" : ""}`}>
      <div ref={content} className="folded-content" onFocusCapture={() => setIsOpen(true)}>
        {children}
      </div>
      {isCut ? (
        <button
          type="button"
          className="link"
          data-action="show-all"
          aria-expanded={isOpen}
          onClick={() => setIsOpen(!isOpen)}
        >
          {isOpen ? "Show less" : "Show all"}
        </button>
      ) : null}
    </div>
  );
}
