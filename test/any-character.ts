import fc from 'fast-check';

/**
 * The unit of texts of any characters, lone surrogates included. fast-check's own `binary` takes seconds to make a table of
 * them all.
 */
export const anyCharacter = fc.oneof(
  fc.nat(0x7f).map((code) => String.fromCodePoint(code)),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
  fc.nat(0x10ffff).map((code) => String.fromCodePoint(code)),
);
