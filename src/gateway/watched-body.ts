/** Listener to the reading of a body. */
export interface BodyListener {
  /** Called with the size of each piece that was read. Default: nothing is called. */
  readonly onRead?: (bytes: number) => void;
  /** Called once the body was read, given up or broken off; perhaps repeatedly. */
  readonly onEnd: () => void;
}

/** Returns a response that reports the reading of its body. */
export function watchedBody(response: Response, { onRead, onEnd }: BodyListener): Response {
  const { body, status, statusText, headers } = response;
  if (body === null) {
    onEnd();
    return response;
  }
  const reader = body.getReader();
  const read = new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          onRead?.(value.byteLength);
          return controller.enqueue(value);
        }
        onEnd();
        controller.close();
      } catch (error) {
        onEnd();
        controller.error(error);
      }
    },
    async cancel(reason) {
      onEnd();
      await reader.cancel(reason);
    },
  });
  return new Response(read, { status, statusText, headers });
}
