/** Mask of a part that may be a secret. */
const MASK = "***";
/** A part of a path that is a name: words of lower-case letters, each with a capital at most at its beginning; or a version. */
const WORDS = /^([A-Z]?[a-z]{1,15}([._-][A-Z]?[a-z]{1,15}){0,3}|v\d{1,2}(\.\d{1,2})?|)$/;
/** The name of an option, with its value if there is one. */
const OPTION = /^(-[A-Za-z]|--[a-z]{1,20}(?:-[a-z]{1,20}){0,3})(=.*)?$/s;

/**
 * Masks a URL of HTTP for readers that may not see secrets: credentials are left out, and everything in its query, its fragment
 * and those parts of its path that are no plain names is masked.
 */
export function maskedUrl(text: string): string {
  const { origin, pathname, search, hash } = new URL(text);
  const path = pathname.split("/").map((part) => (WORDS.test(part) ? part : MASK));
  return `${origin}${path.join("/")}${search === "" ? "" : `?${MASK}`}${hash === "" ? "" : `#${MASK}`}`;
}

/** Masks the arguments of a command for readers that may not see secrets: the names of options are left. */
export function maskedArguments(args: readonly string[]): readonly string[] {
  return args.map((arg) => {
    const [, name, value] = OPTION.exec(arg) ?? [];
    if (name === undefined) return MASK;
    return value === undefined ? name : `${name}=${MASK}`;
  });
}
