import { useEffect } from "react";

/** Opens the folded parts of the page while it is printed. */
export function usePrint(): void {
  useEffect(() => {
    const print = matchMedia("print");
    let opened: readonly HTMLDetailsElement[] = [];
    const change = (): void => {
      if (print.matches) opened = [...document.querySelectorAll<HTMLDetailsElement>("main details:not([open])")];
      for (const part of opened) part.open = print.matches;
    };
    print.addEventListener("change", change);
    return () => print.removeEventListener("change", change);
  }, []);
}
