/** Values by which people find a delivery and its run, such as an order number, by name. */
export type SearchKeys = Readonly<Record<string, string>>;

const MAX_KEY = 1000;

/** Reads `order:SO-1010`, a name and a whole value. */
export function readSearchKey(text: string): SearchKeys | undefined {
  const [, name, value] = /^([A-Za-z][\w-]{0,31}):(.*\S.*)$/s.exec(text) ?? [];
  return name === undefined || value === undefined || value.length > MAX_KEY ? undefined : { [name]: value };
}
