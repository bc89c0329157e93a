/** A case of a JUnit report. */
export interface JunitCase {
  readonly className: string;
  readonly name: string;
  readonly failure: { readonly message: string; readonly text: readonly string[] } | undefined;
}

/** A suite of a JUnit report. */
export interface JunitSuite {
  readonly name: string;
  readonly cases: readonly JunitCase[];
}

/** Writes a JUnit XML report, for continuous integration. */
export function junitXml(name: string, suites: readonly JunitSuite[]): string {
  const counts = (cases: readonly JunitCase[]): string => {
    const failures = cases.filter(({ failure }) => failure !== undefined).length;
    return `tests="${cases.length}" failures="${failures}" errors="0"`;
  };
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="${escaped(name)}" ${counts(suites.flatMap(({ cases }) => cases))}>`,
    ...suites.flatMap((suite) => [
      `  <testsuite name="${escaped(suite.name)}" ${counts(suite.cases)}>`,
      ...suite.cases.flatMap(caseLines),
      "  </testsuite>",
    ]),
    "</testsuites>",
    "",
  ].join("\n");
}

function caseLines({ className, name, failure }: JunitCase): readonly string[] {
  const head = `    <testcase classname="${escaped(className)}" name="${escaped(name)}"`;
  if (failure === undefined) return [`${head}/>`];
  const { message, text } = failure;
  const body = text.map(escaped).join("\n");
  return [`${head}>`, `      <failure message="${escaped(message)}">${body}</failure>`, "    </testcase>"];
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Escapes text for XML 1.0, which excludes most control characters, lone surrogates, U+FFFE and U+FFFF. */
function escaped(text: string): string {
  return (
    text
      .toWellFormed()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML excludes these
      .replace(/[\u0000-\u001f\u007f-\u009f\ufffe\uffff]/g, (found) => {
        return `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;
      })
      .replace(/[&<>"]/g, (found) => ENTITIES[found] ?? "")
  );
}
