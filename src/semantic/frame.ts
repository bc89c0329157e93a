/** Writes data as JSON without `<`, so that nothing in it can end a frame or begin another. */
export function dataText(data: unknown): string {
  return JSON.stringify(data).replaceAll("<", "\\u003c");
}

/**
 * Frames data for a model. This protects the form alone: a model may still believe a text that it was told to distrust, so its
 * answer must never be the only protection.
 */
export function framed(mark: string, data: unknown): string {
  return `<${mark}>\n${dataText(data)}\n</${mark}>`;
}
