import fc from 'fast-check';

/**
 * A unit of arbitrary texts, including lone surrogates. fast-check's own `binary` takes seconds to make a table of all
 * characters.
 */
export const anyCharacter = fc.oneof(
  fc.nat(0x7f).map((code) => String.fromCodePoint(code)),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
  fc.nat(0x10ffff).map((code) => String.fromCodePoint(code)),
);
