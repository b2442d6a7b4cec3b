/** Only letters and digits count, in any case: `git hub` is GitHub. */
export const plainName = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, '');

export const beginsWith = (names: readonly string[], text: string) =>
  names.some((name) => plainName(name).startsWith(plainName(text)));
