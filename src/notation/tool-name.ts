const TOOL_NAME = /^[A-Za-z0-9_][A-Za-z0-9 ._:/@#$+-]{0,255}$/;

/** Tests whether a text can be a tool's name. */
export const isToolName = (text: string): boolean => TOOL_NAME.test(text);
