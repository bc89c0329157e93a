import { fileDesc } from "@bufbuild/protobuf/codegenv2";

/**
 * Descriptor of `buf/validate/validate.proto` without its messages, in place of the whole one when the page is built. The service checks
 * the rules of fields, and the page reads none of them. The text encodes a `FileDescriptorProto` with `name`, `package` and `syntax`.
 */
export const file_buf_validate_validate = fileDesc(
  "ChtidWYvdmFsaWRhdGUvdmFsaWRhdGUucHJvdG8SDGJ1Zi52YWxpZGF0ZWIGcHJvdG8y",
);
