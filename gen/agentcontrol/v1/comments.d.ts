/** Comments of services, methods, messages, fields, enums and values, by full name; paragraphs apart. */
export declare const comments: Readonly<Record<string, string>>;
