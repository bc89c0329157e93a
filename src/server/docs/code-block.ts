import { escaped } from "../html.ts";

/** Classes of a token, each a colour of the style: comment, string, number or constant, keyword, name that is set or read. */
type TokenClass = "c" | "s" | "n" | "k" | "v";
/** Patterns of a language's tokens; of two that match at one place, the first counts. */
type Language = readonly (readonly [TokenClass, RegExp])[];

const DOUBLE_QUOTED = /"(?:[^"\\]|\\[\s\S])*"/;
const SINGLE_QUOTED = /'(?:[^'\\]|\\[\s\S])*'/;
const NUMBER = /\b\d[\d_]*(?:\.\d+)?\b/;
const HASH_COMMENT = /(?<![^\s])#.*/;

const SHELL: Language = [
  ["c", HASH_COMMENT],
  ["s", /'[^']*'/],
  ["s", DOUBLE_QUOTED],
  ["v", /\$\{[^}]*\}|\$(?:\w+|[@?])/],
  ["v", /(?<![^\s])[A-Za-z_]\w*(?==)/],
  ["k", /(?<![\w./-])(?:for|in|do|done|if|then|else|elif|fi|while|case|esac|export|unset)(?![\w./-])/],
  ["n", /(?<!\S)--?[A-Za-z][\w-]*/],
];
const JSON_TOKENS: Language = [
  ["v", /"(?:[^"\\]|\\.)*"(?=\s*:)/],
  ["s", DOUBLE_QUOTED],
  ["n", /-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b|\b(?:true|false|null)\b/],
];
const TYPESCRIPT: Language = [
  ["c", /\/\/.*|\/\*[\s\S]*?\*\//],
  ["s", DOUBLE_QUOTED],
  ["s", SINGLE_QUOTED],
  ["s", /`(?:[^`\\]|\\[\s\S])*`/],
  [
    "k",
    /\b(?:import|export|from|const|let|function|async|await|return|if|else|for|of|in|new|throw|try|catch|finally|type|interface|declare|void|typeof|instanceof|class|extends)\b/,
  ],
  ["n", NUMBER],
  ["n", /\b(?:true|false|null|undefined)\b/],
];
const PYTHON: Language = [
  ["c", HASH_COMMENT],
  ["s", /"""[\s\S]*?"""/],
  ["s", DOUBLE_QUOTED],
  ["s", SINGLE_QUOTED],
  ["v", /@[\w.]+/],
  [
    "k",
    /\b(?:import|from|as|def|class|return|if|elif|else|for|in|while|with|try|except|finally|raise|async|await|lambda|not|and|or|is|pass|yield)\b/,
  ],
  ["n", NUMBER],
  ["n", /\b(?:True|False|None)\b/],
];
const YAML: Language = [
  ["c", HASH_COMMENT],
  ["v", /[\w.-]+(?=:(?:\s|$))/m],
  ["s", DOUBLE_QUOTED],
  ["s", SINGLE_QUOTED],
  ["n", NUMBER],
  ["n", /\b(?:true|false|null)\b/],
];
const SQL: Language = [
  ["c", /--.*/],
  ["s", /'[^']*'/],
  [
    "k",
    /\b(?:select|from|where|and|or|not|in|as|on|join|group|order|by|limit|insert|into|values|update|set|delete|create|alter|grant|revoke|role|database|login|password|owner|to|all|public|with|table|index)\b/i,
  ],
  ["n", NUMBER],
];

const LANGUAGES: Readonly<Record<string, Language>> = {
  sh: SHELL,
  json: JSON_TOKENS,
  ts: TYPESCRIPT,
  python: PYTHON,
  yaml: YAML,
  sql: SQL,
};
const COMPILED = new Map(
  Object.entries(LANGUAGES).map(([name, language]) => [
    name,
    { classes: language.map(([token]) => token), pattern: new RegExp(patternsOf(language), flagsOf(language)) },
  ]),
);

/** Joins the patterns of a language, each a group of its own. */
function patternsOf(language: Language): string {
  return language.map(([, { source }]) => `(${source})`).join("|");
}

function flagsOf(language: Language): string {
  return [...new Set(`g${language.map(([, { flags }]) => flags).join("")}`)].join("");
}

/** Renders code as HTML in the colours of its language; in one that is not known, as plain text. */
function coloured(code: string, language: string): string {
  const { classes, pattern } = COMPILED.get(language) ?? {};
  if (classes === undefined || pattern === undefined) return escaped(code);
  let html = "";
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    const token = classes[match.slice(1).findIndex((group) => group !== undefined)];
    html += `${escaped(code.slice(end, match.index))}<span class="${token}">${escaped(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return html + escaped(code.slice(end));
}

/** Renders a block of code, to which the script of the pages adds a button that copies it. */
export function codeBlock(code: string, language = ""): string {
  return `<div class="code"><pre tabindex="0"><code>${coloured(code.replace(/\n$/, ""), language)}</code></pre></div>`;
}
