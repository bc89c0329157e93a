import { autocompletion, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import {
  bracketMatching,
  defaultHighlightStyle,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import type { TextFault } from "./mandate-text.ts";

/** Properties of the editor. */
export interface EditorProps {
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly faults: readonly TextFault[];
  readonly complete: CompletionSource;
  readonly isReadOnly: boolean;
}

const style = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--wait)" },
  { tag: tags.comment, color: "var(--soft)" },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--raised)", color: "var(--text)", fontSize: "0.9rem" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", tabSize: "2" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-ground) 40%, transparent)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--accent-ground)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-specialChar": { color: "var(--bad)" },
});

/** A YAML editor. Escape, then Tab leaves it by keyboard. */
export function Editor({ text, onChange, faults, complete, isReadOnly }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const latest = useRef({ onChange, complete });
  latest.current = { onChange, complete };
  // biome-ignore lint/correctness/useExhaustiveDependencies: made once; later texts are put into it below
  useEffect(() => {
    const parent = place.current;
    if (parent === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
    const editor = new EditorView({
      parent,
      state: EditorState.create({
        doc: text,
        extensions: [
          EditorView.cspNonce.of(nonce),
          [
            lineNumbers(),
            history(),
            drawSelection(),
            highlightActiveLine(),
            highlightSpecialChars(),
            bracketMatching(),
          ],
          [
            indentOnInput(),
            yaml(),
            syntaxHighlighting(style),
            syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          ],
          [lintGutter(), theme, EditorView.lineWrapping, EditorState.readOnly.of(isReadOnly)],
          autocompletion({ override: [(context) => latest.current.complete(context)] }),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": "Mandate, as YAML" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);
  useEffect(() => {
    const editor = view.current;
    if (editor === undefined || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    const editor = view.current;
    if (editor === undefined) return;
    const { length } = editor.state.doc;
    const shown = faults.map(({ from, to, ...rest }) => ({
      ...rest,
      from: Math.min(from, length),
      to: Math.min(Math.max(to, from), length),
    }));
    editor.dispatch(setDiagnostics(editor.state, shown));
  }, [faults]);
  return <div ref={place} className="editor" />;
}
